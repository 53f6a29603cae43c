/* kernel_sinusoid.cu - embeddings of a time. */
#include "cuda/elements.h"

extern "C" {
#include "op/loops.h"
}

static cudaError_t forward(const struct mf_kernel_call *k)
{
    int half = k->call.y.cols / 2;
    const float *t = k->call.x[0].data;
    float *y = k->call.y.data, scale = *(const float *)k->call.how;
    return mf_cells(k->stream, mf_tile_rows(&k->call.y, k->n), half, [=] __device__(int i, int j) {
        float angle = mf_sinusoid_angle(scale, t[i], j, half), *to = y + (size_t)i * 2 * half + j;
        to[0] = sinf(angle);
        to[half] = cosf(angle);
    });
}

extern const struct mf_kernel mf_kernel_sinusoid = {"sinusoid", forward, NULL, NULL};
