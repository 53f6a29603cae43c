/* op_fold.c - every row becomes a window of rows, which add up: the sum after the product of a transposed convolution.
 */
#include <string.h>

#include "graph/record.h"
#include "op/ops.h"
#include "op/slide.h"

static void forward(const struct mf_call *c, int n)
{
    memset(c->y.data, 0, sizeof(float) * (size_t)mf_tile_rows(&c->y, n) * (size_t)c->y.cols);
    mf_slide_scatter(c, n, &c->x[0], &c->y, c->x[0].data, c->y.data);
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    (void)lane;
    mf_slide_gather(c, n, &c->x[0], &c->y, c->y.grad, c->x[0].grad, c->x[0].add);
}

static const struct mf_op op = {
    .name = "fold",
    .attributes = sizeof(struct mf_slide),
    .flows = 1,
    .forward = forward,
    .backward = backward,
};

struct mf_val mf_fold(struct mf_graph *g, struct mf_val x, const struct mf_slide *how)
{
    int T = (mf_rows(g, x) / how->blocks - 1) * how->stride - 2 * how->pad + how->kernel;
    bool fits = mf_rows(g, x) % how->blocks == 0 && mf_cols(g, x) % how->kernel == 0;
    mf_record_want(g, fits && T > 0 && how->pad < how->kernel, &op, 1, &x);
    return mf_record(g, &op, how, 1, &x, how->blocks * T, mf_cols(g, x) / how->kernel);
}
