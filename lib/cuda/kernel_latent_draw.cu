/* kernel_latent_draw.cu - the latent actor's draw, by reparametrisation. */
#include "cuda/elements.h"

extern "C" {
#include "flow/loops.h"
}

static cudaError_t forward(const struct mf_kernel_call *k)
{
    const float *mean = k->call.x[0].data, *std = k->call.x[1].data, *eps = k->call.n_x > 2 ? k->call.x[2].data : NULL;
    float *y = k->call.y.data, magnitude = *(const float *)k->call.how;
    return mf_each(k->stream, mf_numbers(k, &k->call.y), [=] __device__(size_t at) {
        y[at] = mf_latent_draw_at(magnitude, mean[at], std[at], eps ? eps[at] : 0.0f);
    });
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    const float *mean = k->call.x[0].data, *std = k->call.x[1].data, *eps = k->call.n_x > 2 ? k->call.x[2].data : NULL;
    struct mf_tensor y = k->call.y;
    int cols = y.cols;
    float magnitude = *(const float *)k->call.how;
    return mf_give_back<2>(k, [=] __device__(int o, int i, int d) {
        size_t at = (size_t)i * cols + d;
        float g = y.grad[at];
        if (g == 0.0f)
            return 0.0f;
        float by_mean = mf_latent_draw_by_mean(g, magnitude, mean[at], std[at], eps ? eps[at] : 0.0f);
        return o ? by_mean * (eps ? eps[at] : 0.0f) : by_mean;
    });
}

extern const struct mf_kernel mf_kernel_latent_draw = {"latent_draw", forward, backward, NULL};
