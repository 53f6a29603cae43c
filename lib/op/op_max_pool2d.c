/* op_max_pool2d.c - the largest of every window of a map. */
#include "dev/ref.h"
#include "graph/record.h"
#include "op/ops.h"

/* aux: which pixel of the window is the largest, as a float. */
static void forward(const struct mf_call *c, int n)
{
    const struct mf_patch *how = c->how;
    int C = c->y.cols;
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++)
        for (int k = 0; k < C; k++) {
            size_t at = (size_t)i * (size_t)C + (size_t)k;
            float y = 0.0f;
            int which = -1;
            for (int tap = 0; tap < how->kh * how->kw; tap++) {
                int pixel = mf_patch_pixel(how, i, tap);
                if (pixel < 0)
                    continue;
                float x = c->x[0].data[(size_t)pixel * (size_t)C + (size_t)k];
                if (which < 0 || x > y || x != x)
                    y = x, which = tap;
            }
            c->y.data[at] = y;
            if (c->aux)
                c->aux[at] = (float)which;
        }
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    int C = c->y.cols;
    (void)lane;
    mf_ref_zero(c, n);
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++)
        for (int k = 0; k < C; k++) {
            size_t at = (size_t)i * (size_t)C + (size_t)k;
            int pixel = mf_patch_pixel(c->how, i, (int)c->aux[at]);
            c->x[0].grad[(size_t)pixel * (size_t)C + (size_t)k] += c->y.grad[at];
        }
}

static const struct mf_op op = {
    .name = "max_pool2d",
    .attributes = sizeof(struct mf_patch),
    .flows = 1,
    .frees_inputs = true,
    .forward = forward,
    .backward = backward,
};

struct mf_val mf_max_pool2d(struct mf_graph *g, struct mf_val x, const struct mf_patch *how)
{
    int rows = mf_rows(g, x), cols = mf_cols(g, x);
    mf_record_want(g, mf_patch_fits(how, rows), &op, 1, &x);
    int windows = rows / (how->H * how->W) * mf_patch_down(how) * mf_patch_across(how);
    struct mf_val y = mf_record(g, &op, how, 1, &x, windows, cols);
    mf_record_of(g, y)->aux_floats = (size_t)windows * (size_t)cols;
    return y;
}
