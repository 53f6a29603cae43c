/* tiles.h - products of tiles in shared memory, of which a thread computes 4 x 4 elements. Every element is one sum
 * from 0 upwards, whatever the tile is.
 */
#ifndef MF_CUDA_TILES_H
#define MF_CUDA_TILES_H

#include "cuda/launch.h"

enum { MF_TILE = 64 }; /* columns of a tile; its rows are a multiple of 16, and 4 threads share each */

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

/* Of a tile's 16 x 16 patches of 4 x 4, thread t takes patch (row, col), and in larger steps of t the next. A warp
 * reads 4 rows and 8 columns. */
struct mf_patch {
    int row, col;
};

__device__ __forceinline__ struct mf_patch mf_patch_of(int t)
{
    return {t / 8 % 4 + t / 64 * 4, t % 8 + t / 32 % 2 * 8};
}

/* Copies rows and columns of a matrix to shared memory, and zeros up to whole fours of both. Rows whose `size` is 0 are
 * zeros, too. */
template <bool fours>
__device__ __forceinline__ void mf_stage(float *to, int stride, const struct mf_matrix &m, int first, int col, int rows,
                                         int cols, const float *size)
{
    const float *__restrict__ from = m.at + (size_t)first * m.ld + col;
    int units = fours ? mf_fours_of(cols) : 4 * mf_fours_of(cols), all = 4 * mf_fours_of(rows), threads = blockDim.x;
    int row = threadIdx.x / units, u = threadIdx.x - row * units, ld = m.ld;
    int next_row = threads / units, next_u = threads - next_row * units;
    while (row < all) {
        mf_pack<4> x[4];
        int at[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            bool real = row < rows && !(size && size[row] == 0.0f);
            at[i] = row < all ? row * stride + u * (fours ? 4 : 1) : -1;
            x[i] = {};
            if (fours && real)
                x[i] = *(const mf_pack<4> *)(from + (size_t)row * ld + 4 * u);
            else if (real && u < cols)
                x[i].of[0] = from[(size_t)row * ld + u];
            row += next_row;
            u += next_u;
            if (u >= units) {
                u -= units;
                row++;
            }
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (at[i] >= 0 && fours)
                *(mf_pack<4> *)(to + at[i]) = x[i];
            else if (at[i] >= 0)
                to[at[i]] = x[i].of[0];
    }
}

__device__ __forceinline__ void mf_clear(float sum[4][4])
{
#pragma unroll
    for (int i = 0; i < 16; i++)
        sum[i / 4][i % 4] = 0.0f;
}

/* sum[r][c] += row r of a times row c of b, rows `next_a`, `next_b` floats apart. */
__device__ __forceinline__ void mf_rows_by_rows(float sum[4][4], int depth, const float *a, int next_a, const float *b,
                                                int next_b)
{
#pragma unroll 1
    for (int d = 0; d < depth; d += 4) {
        mf_pack<4> x[4], y[4];
#pragma unroll
        for (int r = 0; r < 4; r++) {
            x[r] = *(const mf_pack<4> *)(a + r * next_a + d);
            y[r] = *(const mf_pack<4> *)(b + r * next_b + d);
        }
#pragma unroll
        for (int i = 0; i < 64; i++)
            sum[i / 4 % 4][i % 4] = fmaf(x[i / 4 % 4].of[i / 16], y[i % 4].of[i / 16], sum[i / 4 % 4][i % 4]);
    }
}

/* sum[r][c] += row r of a times column c of b; at[r]: where the row begins. */
__device__ __forceinline__ void mf_rows_by_cols(float sum[4][4], int depth, const float *a, const int at[4],
                                                const float *b, int ldb)
{
#pragma unroll 1
    for (int d = 0; d < depth; d += 4) {
        mf_pack<4> x[4], y[4];
#pragma unroll
        for (int r = 0; r < 4; r++) {
            x[r] = *(const mf_pack<4> *)(a + at[r] + d);
            y[r] = *(const mf_pack<4> *)(b + (d + r) * ldb);
        }
#pragma unroll
        for (int i = 0; i < 64; i++)
            sum[i / 4 % 4][i % 4] = fmaf(x[i / 4 % 4].of[i / 16], y[i / 16].of[i % 4], sum[i / 4 % 4][i % 4]);
    }
}

/* sum[r][c] += column r of a times column c of b. */
__device__ __forceinline__ void mf_cols_by_cols(float sum[4][4], int depth, const float *a, int lda, const float *b,
                                                int ldb)
{
#pragma unroll 4
    for (int d = 0; d < depth; d++) {
        mf_pack<4> x = *(const mf_pack<4> *)(a + d * lda), y = *(const mf_pack<4> *)(b + d * ldb);
#pragma unroll
        for (int i = 0; i < 16; i++)
            sum[i / 4][i % 4] = fmaf(x.of[i / 4], y.of[i % 4], sum[i / 4][i % 4]);
    }
}

/* Sets up to 4 floats, or adds to them. */
template <bool fours> __device__ __forceinline__ void mf_put(float *to, const float x[4], float by, int cols, bool add)
{
    if (fours) {
        mf_pack<4> y = {};
        if (add)
            y = *(mf_pack<4> *)to;
#pragma unroll
        for (int c = 0; c < 4; c++)
            y.of[c] = add ? y.of[c] + by * x[c] : by * x[c];
        *(mf_pack<4> *)to = y;
    } else {
#pragma unroll
        for (int c = 0; c < 4; c++)
            if (c < cols)
                to[c] = add ? to[c] + by * x[c] : by * x[c];
    }
}

#endif
