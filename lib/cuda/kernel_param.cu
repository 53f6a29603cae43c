/* kernel_param.cu - a parameter as a value, which is shared: there is one lane. */
#include "cuda/launch.h"

static cudaError_t forward(const struct mf_kernel_call *k)
{
    const struct mf_call *c = &k->call;
    const float *W = c->W;
    float *y = c->y.data;
    return mf_cells(k->stream, 1, c->y.rows * c->y.cols, [=] __device__(int, int j) { y[j] = W[j]; });
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    const struct mf_call *c = &k->call;
    const float *d = c->y.grad;
    float *dW = k->lane + c->dW;
    return mf_cells(k->stream, 1, c->y.rows * c->y.cols, [=] __device__(int, int j) { dW[j] += d[j]; });
}

extern const struct mf_kernel mf_kernel_param = {"param", forward, backward, NULL};
