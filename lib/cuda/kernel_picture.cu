/* kernel_picture.cu - a picture of an observation: its window, scaled. */
#include "cuda/launch.h"

extern "C" {
#include "op/how.h"
}

static cudaError_t forward(const struct mf_kernel_call *k)
{
    const struct mf_call *c = &k->call;
    struct mf_picture_how how = *(const struct mf_picture_how *)c->how;
    struct mf_div h = mf_div_by(how.h), C = mf_div_by(how.C);
    const float *x = c->x[0].data + how.from, *scale = c->W, *offset = c->b;
    float *y = c->y.data;
    int apart = c->x[0].cols, N = how.w * how.C;
    /* a row of pixels by a row of threads */
    return mf_cells(k->stream, mf_tile_rows(&c->x[0], k->n) * how.h, N, [=] __device__(int line, int j) {
        int i = mf_quotient(h, line), channel = mf_remainder(C, j);
        float number = mf_picture_number(x + (size_t)i * apart, how.bytes, mf_picture_at(&how, line - i * how.h) + j);
        y[(size_t)line * N + j] = number * scale[channel] + offset[channel];
    });
}

extern const struct mf_kernel mf_kernel_picture = {"picture", forward, NULL, NULL};
