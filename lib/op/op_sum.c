/* op_sum.c - sums, and activations of them. */
#include <string.h>

#include "dev/ref.h"
#include "graph/record.h"
#include "op/ops.h"

static void forward(const struct mf_call *c, int n)
{
    const enum mf_act *act = c->how;
    memset(c->y.data, 0, sizeof(float) * (size_t)mf_tile_rows(&c->y, n) * (size_t)c->y.cols);
    mf_ref_add_act(c, n, 0, *act);
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    const enum mf_act *act = c->how;
    (void)lane;
    mf_ref_zero(c, n);
    mf_ref_add_act_back(c, n, 0, *act);
}

static const struct mf_op op = {
    .name = "sum",
    .attributes = sizeof(enum mf_act),
    .flows = ~0u,
    .frees_inputs = true,
    .forward = forward,
    .backward = backward,
    .by_rows = mf_ref_by_rows,
};

struct mf_val mf_sum(struct mf_graph *g, int n, const struct mf_val *x, enum mf_act act)
{
    int rows = 1, cols = mf_cols(g, x[0]);
    for (int i = 0; i < n; i++)
        if (x[i].id && mf_rows(g, x[i]) > rows)
            rows = mf_rows(g, x[i]);
    for (int i = 0; i < n; i++)
        mf_record_want(g, !x[i].id || mf_spreads(g, x[i], rows, cols), &op, n, x);
    struct mf_val y = mf_record(g, &op, &act, n, x, rows, cols);
    mf_record_of(g, y)->aux_floats = mf_act_keeps(act) ? (size_t)rows * (size_t)cols : 0;
    return y;
}

struct mf_val mf_activate(struct mf_graph *g, struct mf_val x, enum mf_act act)
{
    return mf_sum(g, 1, &x, act);
}

struct mf_val mf_add(struct mf_graph *g, struct mf_val a, struct mf_val b)
{
    return mf_sum(g, 2, (struct mf_val[]){a, b}, MF_ACT_NONE);
}
