/* launch.h - launches, and the kernels that most operations are made of: something for each number (mf_each), for each
 * row and column (mf_cells), and sums over rows (mf_fold). They take a function object (an extended lambda).
 */
#ifndef MF_CUDA_LAUNCH_H
#define MF_CUDA_LAUNCH_H

#include <limits.h>
#include <stdint.h>

#include <utility>

#include <gpu.h>

#include "cuda/kernel.h"

/* Allows f all the shared memory that a block may have. Launches that were recorded share this limit with later ones:
 * it may not follow the last of them. */
static inline cudaError_t mf_allow_shared(const void *f)
{
    int device = 0, most = 0;
    cudaError_t rc = cudaGetDevice(&device);
    if (rc == cudaSuccess)
        rc = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    return rc == cudaSuccess ? cudaFuncSetAttribute(f, cudaFuncAttributeMaxDynamicSharedMemorySize, most) : rc;
}

/* f<<<grid, block, smem, stream>>>(args), smem bytes of dynamic shared memory, above 48 KiB, too. */
template <class... P, class... A>
cudaError_t mf_launch(cudaStream_t stream, dim3 grid, dim3 block, size_t smem, void (*f)(P...), A &&...args)
{
    cudaLaunchConfig_t how = {};
    how.gridDim = grid;
    how.blockDim = block;
    how.dynamicSmemBytes = smem;
    how.stream = stream;
    if (smem > 48 << 10) {
        cudaError_t rc = mf_allow_shared((const void *)f);
        if (rc != cudaSuccess)
            return rc;
    }
    return cudaLaunchKernelEx(&how, f, std::forward<A>(args)...);
}

/* The first error of two launches, the second of which is not tried after a failure. */
#define MF_THEN(rc, next) ((rc) != cudaSuccess ? (rc) : (next))

enum { MF_BLOCK = 256 };
static const size_t MF_GRID = 1 << 16; /* blocks at most, each of which then takes several numbers a thread */

template <class F> __global__ void __launch_bounds__(MF_BLOCK) mf_each_kernel(size_t count, F f)
{
    for (size_t i = blockIdx.x * (size_t)MF_BLOCK + threadIdx.x; i < count; i += (size_t)gridDim.x * MF_BLOCK)
        f(i);
}

/* f(i) for i = 0..count-1, each by a thread. */
template <class F> cudaError_t mf_each(cudaStream_t stream, size_t count, F f)
{
    size_t blocks = (count + MF_BLOCK - 1) / MF_BLOCK;
    if (count == 0)
        return cudaSuccess;
    return mf_launch(stream, dim3((unsigned)(blocks < MF_GRID ? blocks : MF_GRID)), dim3(MF_BLOCK), 0,
                     mf_each_kernel<F>, count, f);
}

/* Division of 0 <= i < 2^31 by a number of 1 or more: a multiplication and a shift. The divide instructions that a
 * kernel needs otherwise take longer than the memory access of an element.
 */
struct mf_div {
    unsigned by, mul;
    int shift;
};

static inline struct mf_div mf_div_by(int by)
{
    int bits = 0; /* 2^bits >= by */
    while (bits < 31 && 1u << bits < (unsigned)by)
        bits++;
    /* at most 2^32 - 1: mul by = 2^(31 + bits) + e, 0 < e <= by, so that i e < 2^(31 + bits) */
    unsigned long long mul = (1ull << (31 + bits)) / (unsigned)by + 1;
    return (struct mf_div){(unsigned)by, (unsigned)mul, 31 + bits};
}

__host__ __device__ static inline int mf_quotient(const struct mf_div &d, int i)
{
    return (int)((unsigned long long)(unsigned)i * d.mul >> d.shift);
}

__host__ __device__ static inline int mf_remainder(const struct mf_div &d, int i)
{
    return i - mf_quotient(d, i) * (int)d.by;
}

/* mf_row_of for kernels: the row of an operand x that row i of y reads. */
struct mf_spreading {
    struct mf_div span, rows;
    bool shared;
};

static inline struct mf_spreading mf_spread_of(const struct mf_tensor *x, const struct mf_tensor *y)
{
    return (struct mf_spreading){mf_div_by(y->rows / x->rows), mf_div_by(x->rows), x->shared};
}

__host__ __device__ static inline int mf_spread_row(const struct mf_spreading &s, int i)
{
    int row = mf_quotient(s.span, i); /* one: as if each sample had its own */
    return s.shared ? mf_remainder(s.rows, row) : row;
}

/* V floats that a thread moves at once. */
template <int V> struct alignas(V * sizeof(float)) mf_pack {
    float of[V];
};

template <int N> struct alignas(N * sizeof(unsigned)) mf_words {
    unsigned of[N];
};

/* Numbers [at, at + V) of an array of bf16 at y. */
template <int V> __device__ __forceinline__ void mf_put_bf16(float *y, size_t at, const mf_pack<V> &x)
{
    mf_words<V / 2> words;
#pragma unroll
    for (int v = 0; v < V; v += 2)
        words.of[v / 2] = mf_bf16(x.of[v], x.of[v + 1]);
    *reinterpret_cast<mf_words<V / 2> *>(reinterpret_cast<uint16_t *>(y) + at) = words;
}

template <> __device__ __forceinline__ void mf_put_bf16<1>(float *y, size_t at, const mf_pack<1> &x)
{
    reinterpret_cast<uint16_t *>(y)[at] = (uint16_t)mf_bf16(x.of[0], 0.0f);
}

template <int V> __device__ __forceinline__ mf_pack<V> mf_get_bf16(const float *y, size_t at)
{
    mf_words<V / 2> words = *reinterpret_cast<const mf_words<V / 2> *>(reinterpret_cast<const uint16_t *>(y) + at);
    mf_pack<V> x;
#pragma unroll
    for (int v = 0; v < V; v++)
        x.of[v] = mf_of_bf16(words.of[v / 2] >> v % 2 * 16 & 0xffffu);
    return x;
}

template <> __device__ __forceinline__ mf_pack<1> mf_get_bf16<1>(const float *y, size_t at)
{
    return {mf_of_bf16(reinterpret_cast<const uint16_t *>(y)[at])};
}

/* Rows of `cols` floats from p on, one after the other, divide into packs of 4. NULL does. */
static inline bool mf_by_fours(const void *p, int cols)
{
    return ((uintptr_t)p | (size_t)cols * sizeof(float)) % 16 == 0;
}

template <class F>
__global__ void __launch_bounds__(MF_BLOCK) mf_cells_kernel(int first, int count, struct mf_div cols, F f)
{
    int i = (int)(blockIdx.x * MF_BLOCK + threadIdx.x), row = mf_quotient(cols, i);
    if (i < count)
        f(first + row, i - row * (int)cols.by);
}

/* f(row, col) for all rows and columns, each by a thread; threads that follow one another take columns that do. */
template <class F> cudaError_t mf_cells(cudaStream_t stream, int rows, int cols, F f)
{
    int most = (INT_MAX - MF_BLOCK) / cols; /* rows of a launch, which counts in 31 bits */
    cudaError_t rc = cudaSuccess;
    for (int from = 0, some; from < rows && rc == cudaSuccess; from += some) {
        some = rows - from < most ? rows - from : most;
        rc = mf_launch(stream, dim3((unsigned)((some * cols + MF_BLOCK - 1) / MF_BLOCK)), dim3(MF_BLOCK), 0,
                       mf_cells_kernel<F>, from, some * cols, mf_div_by(cols), f);
    }
    return rc;
}

/* Targets: rows that sums go to, `rows` for each of `groups` (the lanes of a shared operand, else the samples). Of a
 * group of `samples`, each with rows_of_y, target t sums `span` rows from t*span on. */
struct mf_folding {
    int targets, rows, span, rows_of_y, samples, cols;
    int power;   /* the largest power of two that is at most span */
    int ld;      /* floats from a target to the next */
    size_t next; /* from a group to the next */
    bool add;
};

/* Of the G = blockDim.y threads of a target and a column, H divide the terms of a sample between them, and G/H the
 * samples; then the G sums become one by halves, those of other samples first. So zeros at the end of a lane change no
 * bit, its number of terms is no matter, and the terms of a sample are added in the same order wherever it lies. */
template <class F> __global__ void __launch_bounds__(1024, 1) mf_fold_kernel(struct mf_folding s, float *to, F f)
{
    int G = blockDim.y, g = threadIdx.y, me = ((int)threadIdx.z * G + g) * (int)blockDim.x + (int)threadIdx.x;
    int target = blockIdx.x * blockDim.z + threadIdx.z, j = blockIdx.y * blockDim.x + threadIdx.x;
    int group = target / s.rows, t = target - group * s.rows, H = min(G, s.power), A = G / H;
    int h = g % H, r = h, i = (group * s.samples + g / H) * s.rows_of_y + t * s.span + r;
    bool mine = target < s.targets && j < s.cols;
    int each = (s.span - h + H - 1) / H, terms = (s.samples - g / H + A - 1) / A * each;
    float sum = 0.0f;
#pragma unroll 8
    for (int q = 0; q < (mine ? terms : 0); q++) {
        sum += f(i, j);
        r += H;
        i += H;
        if (r >= s.span) { /* on to the next sample of this thread */
            i += A * s.rows_of_y - r + h;
            r = h;
        }
    }
    if (G > 1) {
        float *sums = mf_shared<float>();
        sums[me] = sum;
        for (int half = G / 2; half; half /= 2) {
            __syncthreads();
            if (g < half)
                sums[me] = sum += sums[me + half * (int)blockDim.x];
        }
    }
    if (g || !mine)
        return;
    float *at = to + group * s.next + (size_t)t * s.ld + j;
    *at = s.add ? *at + sum : sum;
}

/* The largest power of two that is at most x. */
static inline int mf_power_below(int x)
{
    int p = 1;
    while (p <= x / 2)
        p *= 2;
    return p;
}

/* A block of (columns, threads that share a sum, sums): at most `share` threads do, or as many as there is room for. */
static inline dim3 mf_fold_block(int cols, long share)
{
    int X = cols > 256 ? 32 : cols > 8 ? 16 : mf_power_below(2 * cols - 1), most = 1024 / X;
    int G = share < 1 ? 1 : mf_power_below(share < most ? (int)share : most), Z = MF_BLOCK / (X * G);
    return dim3(X, G, Z < 1 ? 1 : Z > 64 ? 64 : Z); /* of a block z is at most 64 */
}

/* The gradient of an operand x that the call's y reads spread: to[t, j], ld floats a row, becomes the sum of f(i, j)
 * over the rows i of y that read row t of x, or has it added where x->add. Of a parameter: x (rows, cols), shared and
 * add. */
template <class F>
cudaError_t mf_fold(const struct mf_kernel_call *k, const struct mf_tensor *x, float *to, int ld, int cols, F f)
{
    int rows_of_y = k->call.y.rows, span = rows_of_y / x->rows, groups = x->shared ? k->lanes : k->n;
    /* By shapes alone. The sums of few columns over all samples of a lane need many threads to occupy a GPU; those
     * within a sample only where they are long. */
    dim3 block = mf_fold_block(cols, x->shared ? 32768 / ((long)x->rows * cols) : span / 16);
    struct mf_folding s = {groups * x->rows,
                           x->rows,
                           span,
                           rows_of_y,
                           k->n / groups,
                           cols,
                           mf_power_below(span),
                           ld,
                           x->shared ? k->stride : (size_t)x->rows * ld,
                           x->add};
    return mf_launch(k->stream, dim3((s.targets + block.z - 1) / block.z, (cols + block.x - 1) / block.x), block,
                     block.x * block.y * block.z * sizeof(float), mf_fold_kernel<F>, s, to, f);
}

#endif
