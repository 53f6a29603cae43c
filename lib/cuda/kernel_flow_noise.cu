/* kernel_flow_noise.cu - the noise of a denoising step, for sampling. */
#include "cuda/flow.h"

static cudaError_t forward(const struct mf_kernel_call *k)
{
    return mf_cells(k->stream, mf_tile_rows(&k->call.y, k->n), k->call.y.cols, mf_flow_noise_of_call(k));
}

extern const struct mf_kernel mf_kernel_flow_noise = {"flow_noise", forward, NULL, NULL};
