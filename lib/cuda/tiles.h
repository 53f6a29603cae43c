/* tiles.h - products of tiles in shared memory, of which a thread computes patches of P x P elements. Every element is
 * one sum from 0 upwards, whatever tile and patch are.
 */
#ifndef MF_CUDA_TILES_H
#define MF_CUDA_TILES_H

#include "cuda/launch.h"

enum { MF_TILE = 64 }; /* columns of a tile; its rows are a multiple of 16 */

struct mf_matrix {
    float *at;
    int ld;
};

static inline __host__ __device__ int mf_fours_of(int n)
{
    return (n + 3) / 4;
}

/* Floats of a row of n in shared memory: rows that follow one another begin in different banks. */
static inline __host__ __device__ int mf_stride_of(int n)
{
    return 4 * (mf_fours_of(n) | 1);
}

static inline __host__ __device__ int mf_least(int a, int b)
{
    return a < b ? a : b;
}

static inline __host__ __device__ int mf_tiles_of(int n, int each)
{
    return (n + each - 1) / each;
}

/* Of a tile, in patches of P x P, thread t takes patch (row, col), and in larger steps of t the next. A warp has 4 rows
 * and 8 columns of them. */
struct mf_square {
    int row, col;
};

template <int P> __device__ __forceinline__ struct mf_square mf_square_of(int t)
{
    constexpr int warps = MF_TILE / (8 * P); /* side by side */
    return {t / 8 % 4 + t / (32 * warps) * 4, t % 8 + t / 32 % warps * 8};
}

/* Begins to copy rows and columns of a matrix to shared memory, with zeros up to whole fours of both. Rows whose `size`
 * is 0 are zeros, too. */
template <bool fours>
__device__ __forceinline__ void mf_stage(float *to, int stride, const struct mf_matrix &m, int first, int col, int rows,
                                         int cols, const float *size)
{
    const float *from = m.at + (size_t)first * m.ld + col;
    int units = fours ? mf_fours_of(cols) : 4 * mf_fours_of(cols), all = 4 * mf_fours_of(rows), threads = blockDim.x;
    int row = threadIdx.x / units, u = threadIdx.x - row * units, ld = m.ld;
    int next_row = threads / units, next_u = threads - next_row * units;
    while (row < all) {
        bool real = row < rows && !(size && size[row] == 0.0f);
        if (fours)
            mf_copy4(to + row * stride + 4 * u, real ? from + (size_t)row * ld + 4 * u : from, real);
        else
            mf_copy1(to + row * stride + u, real && u < cols ? from + (size_t)row * ld + u : from, real && u < cols);
        row += next_row;
        u += next_u;
        if (u >= units) {
            u -= units;
            row++;
        }
    }
}

/* All that the threads of the block have begun to copy is there. */
__device__ __forceinline__ void mf_staged()
{
    mf_copy_group();
    mf_copy_wait<0>();
    __syncthreads();
}

template <int P> __device__ __forceinline__ void mf_clear(float sum[P][P])
{
#pragma unroll
    for (int i = 0; i < P * P; i++)
        sum[i / P][i % P] = 0.0f;
}

/* sum[r][c] += row r of a times row c of b, rows `next_a`, `next_b` floats apart. */
template <int P>
__device__ __forceinline__ void mf_rows_by_rows(float sum[P][P], int depth, const float *a, int next_a, const float *b,
                                                int next_b)
{
#pragma unroll 1
    for (int d = 0; d < depth; d += 4) {
        mf_pack<4> x[P], y[P];
#pragma unroll
        for (int r = 0; r < P; r++) {
            x[r] = *(const mf_pack<4> *)(a + r * next_a + d);
            y[r] = *(const mf_pack<4> *)(b + r * next_b + d);
        }
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int i = 0; i < P * P; i++)
                sum[i / P][i % P] = fmaf(x[i / P].of[k], y[i % P].of[k], sum[i / P][i % P]);
    }
}

/* sum[r][c] += row r of a times column c of b; at[r]: where the row begins. */
template <int P>
__device__ __forceinline__ void mf_rows_by_cols(float sum[P][P], int depth, const float *a, const int at[P],
                                                const float *b, int ldb)
{
#pragma unroll 1
    for (int d = 0; d < depth; d += 4) {
        mf_pack<4> x[P];
        mf_pack<P> y[4];
#pragma unroll
        for (int r = 0; r < P; r++)
            x[r] = *(const mf_pack<4> *)(a + at[r] + d);
#pragma unroll
        for (int k = 0; k < 4; k++)
            y[k] = *(const mf_pack<P> *)(b + (d + k) * ldb);
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int i = 0; i < P * P; i++)
                sum[i / P][i % P] = fmaf(x[i / P].of[k], y[k].of[i % P], sum[i / P][i % P]);
    }
}

/* sum[r][c] += column r of a times column c of b. */
template <int P>
__device__ __forceinline__ void mf_cols_by_cols(float sum[P][P], int depth, const float *a, int lda, const float *b,
                                                int ldb)
{
#pragma unroll 4
    for (int d = 0; d < depth; d++) {
        mf_pack<P> x = *(const mf_pack<P> *)(a + d * lda), y = *(const mf_pack<P> *)(b + d * ldb);
#pragma unroll
        for (int i = 0; i < P * P; i++)
            sum[i / P][i % P] = fmaf(x.of[i / P], y.of[i % P], sum[i / P][i % P]);
    }
}

/* Sets up to P floats, or adds to them. */
template <bool fours, int P>
__device__ __forceinline__ void mf_put(float *to, const float x[P], float by, int cols, bool add)
{
    if (fours) {
        mf_pack<P> y = {};
        if (add)
            y = *(mf_pack<P> *)to;
#pragma unroll
        for (int c = 0; c < P; c++)
            y.of[c] = add ? y.of[c] + by * x[c] : by * x[c];
        *(mf_pack<P> *)to = y;
    } else {
#pragma unroll
        for (int c = 0; c < P; c++)
            if (c < cols)
                to[c] = add ? to[c] + by * x[c] : by * x[c];
    }
}

#endif
