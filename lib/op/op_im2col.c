/* op_im2col.c - every window of a map becomes one row, the operand of a convolution's product. */
#include "dev/ref.h"
#include "graph/record.h"
#include "op/ops.h"

static void forward(const struct mf_call *c, int n)
{
    const struct mf_patch *how = c->how;
    int C = c->x[0].cols;
    float *y = c->y.data;
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++)
        for (int tap = 0; tap < how->kh * how->kw; tap++) {
            int pixel = mf_patch_pixel(how, i, tap);
            for (int k = 0; k < C; k++)
                *y++ = pixel < 0 ? 0.0f : c->x[0].data[(size_t)pixel * (size_t)C + (size_t)k];
        }
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    const struct mf_patch *how = c->how;
    int C = c->x[0].cols;
    const float *g = c->y.grad;
    (void)lane;
    mf_ref_zero(c, n);
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++)
        for (int tap = 0; tap < how->kh * how->kw; tap++, g += C) {
            int pixel = mf_patch_pixel(how, i, tap);
            for (int k = 0; k < C && pixel >= 0; k++)
                c->x[0].grad[(size_t)pixel * (size_t)C + (size_t)k] += g[k];
        }
}

static const struct mf_op op = {
    .name = "im2col",
    .attributes = sizeof(struct mf_patch),
    .flows = 1,
    .frees_inputs = true,
    .forward = forward,
    .backward = backward,
};

struct mf_val mf_im2col(struct mf_graph *g, struct mf_val x, const struct mf_patch *how)
{
    int rows = mf_rows(g, x);
    mf_record_want(g, mf_patch_fits(how, rows), &op, 1, &x);
    return mf_record(g, &op, how, 1, &x, rows / (how->H * how->W) * mf_patch_down(how) * mf_patch_across(how),
                     how->kh * how->kw * mf_cols(g, x));
}
