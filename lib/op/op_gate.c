/* op_gate.c - a gated addition. */
#include "dev/ref.h"
#include "graph/record.h"
#include "op/ops.h"

static void forward(const struct mf_call *c, int n)
{
    const int *from = c->how;
    int N = c->y.cols;
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++) {
        const float *h = mf_ref_row(c, 0, i), *x = mf_ref_row(c, 1, i), *gate = mf_ref_row(c, 2, i) + *from;
        for (int j = 0; j < N; j++)
            c->y.data[i * N + j] = h[j] + gate[j] * x[j];
    }
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    const int *from = c->how;
    int N = c->y.cols;
    (void)lane;
    mf_ref_zero(c, n);
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++) {
        const float *x = mf_ref_row(c, 1, i), *gate = mf_ref_row(c, 2, i) + *from, *g = c->y.grad + i * N;
        float *dh = mf_ref_grad(c, 0, i), *dx = mf_ref_grad(c, 1, i), *dm = mf_ref_grad(c, 2, i);
        for (int j = 0; j < N; j++) {
            if (g[j] == 0.0f)
                continue;
            if (dh)
                dh[j] += g[j];
            if (dx)
                dx[j] += g[j] * gate[j];
            if (dm)
                dm[*from + j] += g[j] * x[j];
        }
    }
}

static const struct mf_op op = {
    .name = "gate",
    .attributes = sizeof(int),
    .flows = ~0u,
    .forward = forward,
    .backward = backward,
    .by_rows = mf_ref_by_rows,
};

struct mf_val mf_gate(struct mf_graph *g, struct mf_val h, struct mf_val x, struct mf_val m, int from)
{
    struct mf_val all[] = {h, x, m};
    bool fits = from >= 0 && from + mf_cols(g, x) <= mf_cols(g, m) && mf_rows(g, x) % mf_rows(g, m) == 0;
    fits = fits && mf_spreads(g, h, mf_rows(g, x), mf_cols(g, x));
    mf_record_want(g, fits && (!mf_is_shared(g, x) || (mf_is_shared(g, h) && mf_is_shared(g, m))), &op, 3, all);
    return mf_record(g, &op, &from, 3, all, mf_rows(g, x), mf_cols(g, x));
}
