/* op_unfold.c - every window of rows becomes one row, the operand of a convolution's product. */
#include "dev/ref.h"
#include "graph/record.h"
#include "op/ops.h"
#include "op/slide.h"

static void forward(const struct mf_call *c, int n)
{
    mf_slide_gather(c, n, &c->y, &c->x[0], c->x[0].data, c->y.data, false);
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    (void)lane;
    mf_ref_zero(c, n);
    mf_slide_scatter(c, n, &c->y, &c->x[0], c->y.grad, c->x[0].grad);
}

static const struct mf_op op = {
    .name = "unfold",
    .attributes = sizeof(struct mf_slide),
    .flows = 1,
    .forward = forward,
    .backward = backward,
};

struct mf_val mf_unfold(struct mf_graph *g, struct mf_val x, const struct mf_slide *how)
{
    int spare = mf_rows(g, x) / how->blocks + 2 * how->pad - how->kernel;
    mf_record_want(g, mf_rows(g, x) % how->blocks == 0 && spare >= 0 && how->pad < how->kernel, &op, 1, &x);
    return mf_record(g, &op, how, 1, &x, how->blocks * (spare / how->stride + 1), mf_cols(g, x) * how->kernel);
}
