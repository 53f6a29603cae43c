/* kernel_flow_mean.cu - the mean of a denoising step. */
#include "cuda/flow.h"

static cudaError_t forward(const struct mf_kernel_call *k)
{
    return mf_cells(k->stream, mf_tile_rows(&k->call.y, k->n), k->call.y.cols, mf_flow_mean_of_call(k));
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    struct mf_reader x = mf_reads(k, 0), v = mf_reads(k, 1), coef = mf_reads(k, 2);
    struct mf_tensor y = k->call.y;
    float limit = *(const float *)k->call.how;
    return mf_give_back<2>(k, [=] __device__(int o, int i, int d) {
        float g = y.grad[(size_t)i * y.cols + d];
        if (g == 0.0f)
            return 0.0f;
        const float *c = mf_read_row(coef, i);
        float mean = mf_flow_mean_at(c, mf_read_row(x, i)[d], mf_read_row(v, i)[d]);
        return mf_flow_passes(mean, limit) ? c[o] * g : 0.0f;
    });
}

extern const struct mf_kernel mf_kernel_flow_mean = {"flow_mean", forward, backward, NULL};
