/* op_noise_std.c - the standard deviation that a noise network predicts, within its bounds. */
#include "flow/loops.h"
#include "flow/ops.h"
#include "graph/record.h"

static void forward(const struct mf_call *c, int n)
{
    int size = mf_tile_rows(&c->y, n) * c->y.cols;
    for (int i = 0; i < size; i++)
        c->y.data[i] = mf_noise_std_at(c->x[1].data, c->x[0].data[i]);
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    int size = mf_tile_rows(&c->y, n) * c->y.cols;
    (void)lane;
    mf_ref_zero(c, n);
    for (int i = 0; i < size; i++)
        if (c->y.grad[i] != 0.0f)
            c->x[0].grad[i] += mf_noise_std_by_u(c->y.grad[i], c->x[1].data, c->x[0].data[i], c->y.data[i]);
}

static const struct mf_op op = {
    .name = "noise_std",
    .flows = 1,
    .forward = forward,
    .backward = backward,
};

struct mf_val mf_noise_std(struct mf_graph *g, struct mf_val u, struct mf_val bounds)
{
    struct mf_val all[] = {u, bounds};
    mf_record_want(g, mf_has_shape(g, bounds, 1, 2) && mf_is_shared(g, bounds), &op, 2, all);
    return mf_record(g, &op, NULL, 2, all, mf_rows(g, u), mf_cols(g, u));
}
