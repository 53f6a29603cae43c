/* op_modulate.c - shift and scale of a normalised value. */
#include "dev/ref.h"
#include "graph/record.h"
#include "op/ops.h"

static void forward(const struct mf_call *c, int n)
{
    const int *from = c->how;
    int N = c->y.cols;
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++) {
        const float *x = mf_ref_row(c, 0, i), *shift = mf_ref_row(c, 1, i) + *from, *scale = shift + N;
        for (int j = 0; j < N; j++)
            c->y.data[i * N + j] = x[j] * (1.0f + scale[j]) + shift[j];
    }
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    const int *from = c->how;
    int N = c->y.cols;
    (void)lane;
    mf_ref_zero(c, n);
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++) {
        const float *x = mf_ref_row(c, 0, i), *scale = mf_ref_row(c, 1, i) + *from + N, *g = c->y.grad + i * N;
        float *dx = mf_ref_grad(c, 0, i), *dm = mf_ref_grad(c, 1, i);
        for (int j = 0; j < N; j++) {
            if (g[j] == 0.0f)
                continue;
            if (dx)
                dx[j] += g[j] * (1.0f + scale[j]);
            if (dm) {
                dm[*from + j] += g[j];
                dm[*from + N + j] += g[j] * x[j];
            }
        }
    }
}

static const struct mf_op op = {
    .name = "modulate",
    .attributes = sizeof(int),
    .flows = ~0u,
    .forward = forward,
    .backward = backward,
    .by_rows = mf_ref_by_rows,
};

struct mf_val mf_modulate(struct mf_graph *g, struct mf_val x, struct mf_val m, int from)
{
    struct mf_val all[] = {x, m};
    bool fits = from >= 0 && from + 2 * mf_cols(g, x) <= mf_cols(g, m) && mf_rows(g, x) % mf_rows(g, m) == 0;
    mf_record_want(g, fits && (mf_is_shared(g, m) || !mf_is_shared(g, x)), &op, 2, all);
    return mf_record(g, &op, &from, 2, all, mf_rows(g, x), mf_cols(g, x));
}
