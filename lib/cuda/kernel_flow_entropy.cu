/* kernel_flow_entropy.cu - the entropy rate of a chain. */
#include "cuda/elements.h"

extern "C" {
#include "flow/loops.h"
}

static cudaError_t forward(const struct mf_kernel_call *k)
{
    int size = k->call.x[0].rows * k->call.x[0].cols;
    const float *std = k->call.x[0].data;
    float *y = k->call.y.data, scale = *(const float *)k->call.how;
    return mf_sums(
        k->stream, k->n, size, [=] __device__(int s, int j) { return mf_flow_entropy_at(std[(size_t)s * size + j]); },
        [=] __device__(int s, double sum) { y[s] = (float)(sum * (double)scale); });
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    struct mf_tensor std = k->call.x[0];
    int size = std.rows * std.cols;
    const float *grad = k->call.y.grad;
    float scale = *(const float *)k->call.how;
    return mf_cells(k->stream, k->n, size, [=] __device__(int s, int j) {
        size_t at = (size_t)s * size + j;
        float g = grad[s];
        mf_give(std, at, g == 0.0f ? 0.0f : mf_flow_entropy_by_std(g, scale, std.data[at]));
    });
}

extern const struct mf_kernel mf_kernel_flow_entropy = {"flow_entropy", forward, backward, NULL};
