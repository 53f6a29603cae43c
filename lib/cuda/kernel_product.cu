/* kernel_product.cu - an elementwise product. */
#include "cuda/elements.h"

static cudaError_t forward(const struct mf_kernel_call *k)
{
    const float *a = k->call.x[0].data, *b = k->call.x[1].data;
    float *y = k->call.y.data;
    return mf_each(k->stream, mf_numbers(k, &k->call.y), [=] __device__(size_t i) { y[i] = a[i] * b[i]; });
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    const float *a = k->call.x[0].data, *b = k->call.x[1].data, *dy = k->call.y.grad;
    int cols = k->call.y.cols;
    return mf_give_back<2>(k, [=] __device__(int o, int i, int d) {
        size_t at = (size_t)i * cols + d;
        float g = dy[at];
        return g == 0.0f ? 0.0f : g * (o ? a : b)[at];
    });
}

extern const struct mf_kernel mf_kernel_product = {"product", forward, backward, NULL};
