/* op_concat.c - operands side by side. */
#include <string.h>

#include "dev/ref.h"
#include "graph/record.h"
#include "op/ops.h"

static void forward(const struct mf_call *c, int n)
{
    int M = mf_tile_rows(&c->y, n);
    for (int i = 0; i < M; i++) {
        float *to = c->y.data + (size_t)i * (size_t)c->y.cols;
        for (int k = 0; k < c->n_x; to += c->x[k++].cols)
            memcpy(to, c->x[k].data + (size_t)mf_row_of(&c->x[k], &c->y, i) * (size_t)c->x[k].cols,
                   sizeof(float) * (size_t)c->x[k].cols);
    }
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    int M = mf_tile_rows(&c->y, n);
    (void)lane;
    mf_ref_zero(c, n);
    for (int i = 0; i < M; i++) {
        const float *d = c->y.grad + (size_t)i * (size_t)c->y.cols;
        for (int k = 0; k < c->n_x; d += c->x[k++].cols)
            for (int j = 0; c->x[k].grad && j < c->x[k].cols; j++)
                c->x[k].grad[(size_t)mf_row_of(&c->x[k], &c->y, i) * (size_t)c->x[k].cols + (size_t)j] += d[j];
    }
}

static const struct mf_op op = {
    .name = "concat",
    .flows = ~0u,
    .frees_inputs = true,
    .forward = forward,
    .backward = backward,
};

struct mf_val mf_concat(struct mf_graph *g, int n, const struct mf_val *x)
{
    int rows = 1, cols = 0;
    for (int i = 0; i < n; i++) {
        rows = mf_rows(g, x[i]) > rows ? mf_rows(g, x[i]) : rows;
        cols += mf_cols(g, x[i]);
    }
    for (int i = 0; i < n; i++)
        mf_record_want(g, rows % mf_rows(g, x[i]) == 0, &op, n, x);
    return mf_record(g, &op, NULL, n, x, rows, cols);
}
