/* elements.h - operations whose numbers depend on few others: by element, and by a sum over the terms of a sample. */
#ifndef MF_CUDA_ELEMENTS_H
#define MF_CUDA_ELEMENTS_H

#include "cuda/launch.h"

/* A tensor's numbers, in all samples of the call. */
static inline size_t mf_numbers(const struct mf_kernel_call *k, const struct mf_tensor *t)
{
    return (size_t)mf_tile_rows(t, k->n) * t->cols;
}

/* The rows of an operand by those of y; NULL where the call has no such operand. */
struct mf_reader {
    const float *data;
    int cols;
    bool same; /* the rows of y */
    struct mf_spreading spread;
};

static inline struct mf_reader mf_reads(const struct mf_kernel_call *k, int operand)
{
    struct mf_reader r = {};
    if (operand < k->call.n_x) {
        const struct mf_tensor *x = &k->call.x[operand], *y = &k->call.y;
        r = {x->data, x->cols, mf_same_rows(x, y), mf_spread_of(x, y)};
    }
    return r;
}

__device__ inline const float *mf_read_row(const struct mf_reader &r, int i)
{
    return r.data ? r.data + (size_t)(r.same ? i : mf_spread_row(r.spread, i)) * r.cols : NULL;
}

/* A gradient becomes d, or has it added. */
__device__ inline void mf_give(const struct mf_tensor &x, size_t at, float d)
{
    if (!x.add)
        x.grad[at] = d;
    else if (d != 0.0f)
        x.grad[at] += d;
}

template <int N> struct mf_operands {
    struct mf_tensor of[N];
};

/* The backward of an operation by elements: element d of row i of y adds f(o, i, d) to the gradient of operand o < N.
 * One launch serves the operands whose rows are those of y, and one each of the others. */
template <int N, class F> cudaError_t mf_give_back(const struct mf_kernel_call *k, F f)
{
    auto x = mf_operands<N>();
    unsigned same = 0, spread = 0;
    for (int o = 0; o < N && o < k->call.n_x; o++) {
        x.of[o] = k->call.x[o];
        if (x.of[o].grad)
            (mf_same_rows(&x.of[o], &k->call.y) ? same : spread) |= 1u << o;
    }
    cudaError_t rc = cudaSuccess;
    int cols = k->call.y.cols;
    if (same)
        rc = mf_cells(k->stream, mf_tile_rows(&k->call.y, k->n), cols, [=] __device__(int i, int d) {
#pragma unroll
            for (int o = N - 1; o >= 0; o--)
                if (same >> o & 1)
                    mf_give(x.of[o], (size_t)i * cols + d, f(o, i, d));
        });
    for (int o = N - 1; o >= 0; o--)
        if (spread >> o & 1)
            rc = MF_THEN(rc, mf_fold(k, &x.of[o], x.of[o].grad, cols, cols,
                                     [=] __device__(int i, int d) { return f(o, i, d); }));
    return rc;
}

/* Threads that share a sum: a power of two that depends on the number of terms alone, for some four terms each. */
static inline int mf_team(int terms)
{
    int team = 1;
    while (team < 32 && 4 * team < terms)
        team *= 2;
    return team;
}

/* Thread l of a team sums terms l, l + team, ..; then the team's sums become one by halves. */
template <class F, class G>
__device__ __forceinline__ void mf_sum_by_team(int s, int sums, int terms, int team, F f, G done)
{
    int lane = threadIdx.x % team;
    double sum = 0.0;
    for (int t = lane; s < sums && t < terms; t += team)
        sum += f(s, t);
    for (int half = team / 2; half; half /= 2)
        sum += __shfl_xor_sync(~0u, sum, half);
    if (lane == 0 && s < sums)
        done(s, sum);
}

template <class F, class G>
__global__ void __launch_bounds__(MF_BLOCK) mf_sums_kernel(int sums, int terms, int team, F f, G done)
{
    mf_sum_by_team((int)blockIdx.x * (MF_BLOCK / team) + (int)threadIdx.x / team, sums, terms, team, f, done);
}

/* done(s, the sum of f(s, t) over the terms t = 0..terms-1), for s = 0..sums-1. */
template <class F, class G> cudaError_t mf_sums(cudaStream_t stream, int sums, int terms, F f, G done)
{
    int team = mf_team(terms), in_block = MF_BLOCK / team;
    if (sums == 0)
        return cudaSuccess;
    return mf_launch(stream, dim3((unsigned)((sums - 1) / in_block + 1)), dim3(MF_BLOCK), 0, mf_sums_kernel<F, G>, sums,
                     terms, team, f, done);
}

#endif
