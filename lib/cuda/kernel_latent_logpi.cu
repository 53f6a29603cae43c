/* kernel_latent_logpi.cu - the log-probability of the latent actor's squashed draw. */
#include "cuda/elements.h"

extern "C" {
#include "flow/loops.h"
}

static cudaError_t forward(const struct mf_kernel_call *k)
{
    const float *mean = k->call.x[0].data, *std = k->call.x[1].data, *eps = k->call.x[2].data;
    float *y = k->call.y.data;
    return mf_each(k->stream, mf_numbers(k, &k->call.y),
                   [=] __device__(size_t at) { y[at] = mf_latent_logpi_at(mean[at], std[at], eps[at]); });
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    const float *mean = k->call.x[0].data, *std = k->call.x[1].data, *eps = k->call.x[2].data;
    struct mf_tensor y = k->call.y;
    int cols = y.cols;
    return mf_give_back<2>(k, [=] __device__(int o, int i, int d) {
        size_t at = (size_t)i * cols + d;
        float g = y.grad[at];
        if (g == 0.0f)
            return 0.0f;
        return o ? mf_latent_logpi_by_std(g, mean[at], std[at], eps[at])
                 : mf_latent_logpi_by_mean(g, mean[at], std[at], eps[at]);
    });
}

extern const struct mf_kernel mf_kernel_latent_logpi = {"latent_logpi", forward, backward, NULL};
