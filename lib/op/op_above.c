/* op_above.c - a mask: which numbers are above a bound. */
#include "dev/ref.h"
#include "graph/record.h"
#include "op/ops.h"

static void forward(const struct mf_call *c, int n)
{
    const float *bound = c->how;
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++)
        c->y.data[i] = *mf_ref_row(c, 0, i) > *bound ? 1.0f : 0.0f;
}

static const struct mf_op op = {
    .name = "above",
    .attributes = sizeof(float),
    .forward = forward,
};

struct mf_val mf_above(struct mf_graph *g, struct mf_val x, float bound, int n)
{
    mf_record_want(g, mf_cols(g, x) == 1 && n % mf_rows(g, x) == 0, &op, 1, &x);
    return mf_record(g, &op, &bound, 1, &x, n, 1);
}
