/* op_blend.c - sums of rows, weighed by a parameter. */
#include <string.h>

#include "dev/ref.h"
#include "graph/record.h"
#include "op/ops.h"

static void forward(const struct mf_call *c, int n)
{
    int R = c->x[0].rows / c->y.rows, N = c->y.cols;
    const float *x = c->x[0].data;
    memset(c->y.data, 0, sizeof(float) * (size_t)mf_tile_rows(&c->y, n) * (size_t)N);
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++)
        for (int r = 0; r < R; r++)
            for (int j = 0; j < N; j++)
                c->y.data[i * N + j] += c->W[r * N + j] * *x++;
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    int R = c->x[0].rows / c->y.rows, N = c->y.cols;
    size_t at = 0; /* in x */
    mf_ref_zero(c, n);
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++)
        for (int r = 0; r < R; r++)
            for (int j = 0; j < N; j++, at++) {
                float g = c->y.grad[i * N + j];
                if (g == 0.0f)
                    continue;
                if (c->dW >= 0)
                    lane[c->dW + r * N + j] += g * c->x[0].data[at];
                if (c->x[0].grad)
                    c->x[0].grad[at] += g * c->W[r * N + j];
            }
}

static const struct mf_op op = {
    .name = "blend",
    .flows = 1,
    .forward = forward,
    .backward = backward,
};

struct mf_val mf_blend(struct mf_graph *g, struct mf_val x, int W)
{
    const struct mf_param *w = &mf_graph_params(g)->p[W];
    int rows = mf_rows(g, x);
    mf_record_want(g, mf_cols(g, x) == w->cols && rows % w->rows == 0, &op, 1, &x);
    struct mf_val y = mf_record(g, &op, NULL, 1, &x, rows / w->rows, w->cols);
    mf_record_of(g, y)->W = W;
    return y;
}
