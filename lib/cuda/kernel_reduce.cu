/* kernel_reduce.cu - sums the elements of a chain to the granularity of the ratio. */
#include "cuda/elements.h"

extern "C" {
#include "flow/loops.h"
}

static cudaError_t forward(const struct mf_kernel_call *k)
{
    struct mf_reduce_how how = *(const struct mf_reduce_how *)k->call.how;
    int K = k->call.x[0].rows, D = k->call.x[0].cols, E = k->call.y.cols, from, to;
    const float *elements = k->call.x[0].data, *first = k->call.n_x > 1 ? k->call.x[1].data : NULL;
    float *y = k->call.y.data;
    mf_reduce_columns(&how, D, 0, &from, &to); /* each e has as many */
    struct mf_div by_width = mf_div_by(to - from), by_E = mf_div_by(E);
    return mf_sums(
        k->stream, k->n * E, K * (to - from),
        [=] __device__(int o, int t) {
            int s = mf_quotient(by_E, o), row = mf_quotient(by_width, t), d, end;
            mf_reduce_columns(&how, D, o - s * E, &d, &end);
            d += t - row * (end - d);
            double x = (double)elements[((size_t)s * K + row) * D + d];
            return first && row == 0 ? x - mf_reduce_first_at(first[(size_t)s * D + d]) : x;
        },
        [=] __device__(int o, double sum) { y[o] = (float)(sum * (double)how.scale); });
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
