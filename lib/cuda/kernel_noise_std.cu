/* kernel_noise_std.cu - the standard deviation that a noise network predicts, within its bounds. */
#include "cuda/flow.h"

static cudaError_t forward(const struct mf_kernel_call *k)
{
    return mf_each(k->stream, mf_numbers(k, &k->call.y), mf_noise_std_of_call(k));
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    struct mf_tensor y = k->call.y, u = k->call.x[0];
    const float *bounds = k->call.x[1].data;
    return mf_each(k->stream, mf_numbers(k, &y), [=] __device__(size_t at) {
        float g = y.grad[at];
        mf_give(u, at, g == 0.0f ? 0.0f : mf_noise_std_by_u(g, bounds, u.data[at], y.data[at]));
    });
}

extern const struct mf_kernel mf_kernel_noise_std = {"noise_std", forward, backward, NULL};
