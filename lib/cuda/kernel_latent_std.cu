/* kernel_latent_std.cu - the standard deviation of the latent actor. */
#include "cuda/elements.h"

extern "C" {
#include "flow/loops.h"
}

static cudaError_t forward(const struct mf_kernel_call *k)
{
    struct mf_latent_std_how how = *(const struct mf_latent_std_how *)k->call.how;
    const float *x = k->call.x[0].data;
    float *y = k->call.y.data;
    return mf_each(k->stream, mf_numbers(k, &k->call.y),
                   [=] __device__(size_t at) { y[at] = mf_latent_std_at(&how, x[at]); });
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    struct mf_latent_std_how how = *(const struct mf_latent_std_how *)k->call.how;
    struct mf_tensor y = k->call.y, x = k->call.x[0];
    return mf_each(k->stream, mf_numbers(k, &y), [=] __device__(size_t at) {
        float g = y.grad[at];
        mf_give(x, at, g == 0.0f ? 0.0f : mf_latent_std_by(&how, g, x.data[at], y.data[at]));
    });
}

extern const struct mf_kernel mf_kernel_latent_std = {"latent_std", forward, backward, NULL};
