/* op_flow_mean.c - the mean of a denoising step. */
#include "flow/loops.h"
#include "flow/ops.h"
#include "graph/record.h"

static void forward(const struct mf_call *c, int n)
{
    const float *limit = c->how;
    int D = c->y.cols;
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++) {
        const float *x = mf_ref_row(c, 0, i), *v = mf_ref_row(c, 1, i), *coef = mf_ref_row(c, 2, i);
        for (int d = 0; d < D; d++)
            c->y.data[i * D + d] = mf_flow_kept(mf_flow_mean_at(coef, x[d], v[d]), *limit);
    }
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    const float *limit = c->how;
    int D = c->y.cols;
    (void)lane;
    mf_ref_zero(c, n);
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++) {
        const float *x = mf_ref_row(c, 0, i), *v = mf_ref_row(c, 1, i), *coef = mf_ref_row(c, 2, i);
        float *dx = mf_ref_grad(c, 0, i), *dv = mf_ref_grad(c, 1, i);
        for (int d = 0; d < D; d++) {
            float g = c->y.grad[i * D + d], mean = mf_flow_mean_at(coef, x[d], v[d]);
            if (g == 0.0f || !mf_flow_passes(mean, *limit))
                continue;
            if (dx)
                dx[d] += coef[0] * g;
            if (dv)
                dv[d] += coef[1] * g;
        }
    }
}

static const struct mf_op op = {
    .name = "flow_mean",
    .attributes = sizeof(float),
    .flows = 1 | 2,
    .forward = forward,
    .backward = backward,
};

struct mf_val mf_flow_mean(struct mf_graph *g, struct mf_val x, struct mf_val v, struct mf_val coef, float limit)
{
    struct mf_val all[] = {x, v, coef};
    int rows = mf_rows(g, v), cols = mf_cols(g, v);
    mf_record_want(g, mf_has_shape(g, x, rows, cols) && mf_spreads(g, coef, rows, 3), &op, 3, all);
    return mf_record(g, &op, &limit, 3, all, rows, cols);
}
