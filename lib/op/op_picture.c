/* op_picture.c - a picture of an observation: its window, scaled. */
#include "base/layout.h"
#include "graph/record.h"
#include "op/ops.h"

static void forward(const struct mf_call *c, int n)
{
    const struct mf_picture_how *how = c->how;
    float *y = c->y.data;
    for (int i = 0; i < mf_tile_rows(&c->x[0], n); i++) {
        const float *x = c->x[0].data + (size_t)i * (size_t)c->x[0].cols + (size_t)how->from;
        for (int r = 0; r < how->h; r++)
            for (int k = 0; k < how->w * how->C; k++)
                *y++ =
                    mf_picture_number(x, how->bytes, mf_picture_at(how, r) + k) * c->W[k % how->C] + c->b[k % how->C];
    }
}

static const struct mf_op op = {
    .name = "picture",
    .attributes = sizeof(struct mf_picture_how),
    .forward = forward,
};

struct mf_val mf_picture(struct mf_graph *g, struct mf_val x, int from, const struct mf_obs *o, int crop, int scale,
                         int offset)
{
    const struct mf_param *p = mf_graph_params(g)->p;
    int H = o->dim[0], W = o->dim[1], C = o->dim[2], h = crop ? crop : H, w = crop ? crop : W;
    bool fits = C > 0 && crop >= 0 && h <= H && w <= W && from >= 0 && from + mf_obs_size(o) <= mf_cols(g, x);
    mf_record_want(g, fits && p[scale].cols == C && p[offset].cols == C, &op, 1, &x);
    struct mf_picture_how how = {from, o->u8, W, C, mf_crop_center(H, h), mf_crop_center(W, w), h, w};
    struct mf_val y = mf_record(g, &op, &how, 1, &x, mf_rows(g, x) * h * w, C);
    mf_record_of(g, y)->W = scale;
    mf_record_of(g, y)->b = offset;
    return y;
}
