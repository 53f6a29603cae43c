/* kernel_flow_noise.cu - the noise of a denoising step, for sampling. */
#include "cuda/elements.h"

extern "C" {
#include "flow/loops.h"
}

static cudaError_t forward(const struct mf_kernel_call *k)
{
    struct mf_reader mean = mf_reads(k, 0), eps = mf_reads(k, 1), coef = mf_reads(k, 2), std = mf_reads(k, 3);
    struct mf_flow_noise_how how = *(const struct mf_flow_noise_how *)k->call.how;
    float *y = k->call.y.data;
    int cols = k->call.y.cols;
    return mf_cells(k->stream, mf_tile_rows(&k->call.y, k->n), cols, [=] __device__(int i, int d) {
        float s = mf_flow_std_at(mf_read_row(coef, i), mf_read_row(std, i), d);
        y[(size_t)i * cols + d] = mf_flow_noise_at(&how, mf_read_row(mean, i)[d], s, mf_read_row(eps, i)[d]);
    });
}

extern const struct mf_kernel mf_kernel_flow_noise = {"flow_noise", forward, NULL, NULL};
