/* op_places.c - places of rows among those that a mask leaves. */
#include "dev/ref.h"
#include "graph/record.h"
#include "op/ops.h"

static void forward(const struct mf_call *c, int n)
{
    int m = c->x[0].rows, rows = c->y.rows;
    for (int s = 0; s < (c->y.shared ? 1 : n); s++) {
        const float *mask = c->x[0].data + mf_ref_sample(&c->x[0], s);
        float *y = c->y.data + mf_ref_sample(&c->y, s), count = 0.0f;
        for (int i = 0; i < rows; i++) {
            count += i < m ? mask[i] : 1.0f;
            y[i] = count - 1.0f;
        }
    }
}

static const struct mf_op op = {
    .name = "places",
    .forward = forward,
};

struct mf_val mf_places(struct mf_graph *g, struct mf_val mask, int more)
{
    mf_record_want(g, mf_cols(g, mask) == 1 && more >= 0, &op, 1, &mask);
    return mf_record(g, &op, NULL, 1, &mask, mf_rows(g, mask) + more, 1);
}
