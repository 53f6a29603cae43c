/* kernel_sinusoid.cu - embeddings of a time. */
#include "cuda/elements.h"

extern "C" {
#include "op/loops.h"
}

static cudaError_t forward(const struct mf_kernel_call *k)
{
    int half = k->call.y.cols / 2;
    const float *t = k->call.x[0].data;
    float *y = k->call.y.data;
    struct mf_sinusoid_how how = *(const struct mf_sinusoid_how *)k->call.how;
    return mf_cells(k->stream, mf_tile_rows(&k->call.y, k->n), half, [=] __device__(int i, int j) {
        float *to = y + (size_t)i * 2 * half + j;
        mf_sinusoid_wave(&how, t[i], j, half, &to[0], &to[half]);
    });
}

extern const struct mf_kernel mf_kernel_sinusoid = {"sinusoid", forward, NULL, NULL};
