/* kernel_reduce.cu - sums the elements of a chain to the granularity of the ratio. */
#include "cuda/flow.h"

static cudaError_t forward(const struct mf_kernel_call *k)
{
    struct mf_reduction r = mf_reduction_of(k);
    return mf_sums(
        k->stream, r.sums, r.terms, [=] __device__(int o, int t) { return r.term(o, t); },
        [=] __device__(int o, double sum) { r.done(o, sum); });
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    struct mf_reduce_how how = *(const struct mf_reduce_how *)k->call.how;
    struct mf_tensor x = k->call.x[0];
    int E = k->call.y.cols;
    struct mf_div by_K = mf_div_by(x.rows);
    const float *grad = k->call.y.grad;
    return mf_cells(k->stream, k->n * x.rows, x.cols, [=] __device__(int i, int d) {
        int e = mf_reduce_column(&how, d);
        mf_give(x, (size_t)i * x.cols + d, e < 0 ? 0.0f : how.scale * grad[mf_quotient(by_K, i) * E + e]);
    });
}

extern const struct mf_kernel mf_kernel_reduce = {"reduce", forward, backward, NULL};
