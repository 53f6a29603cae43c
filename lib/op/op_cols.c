/* op_cols.c - some columns. */
#include <string.h>

#include "dev/ref.h"
#include "graph/record.h"
#include "op/ops.h"

static void forward(const struct mf_call *c, int n)
{
    const int *from = c->how;
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++)
        memcpy(c->y.data + (size_t)i * (size_t)c->y.cols,
               c->x[0].data + (size_t)i * (size_t)c->x[0].cols + (size_t)*from, sizeof(float) * (size_t)c->y.cols);
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    const int *from = c->how;
    (void)lane;
    mf_ref_zero(c, n);
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++)
        for (int j = 0; j < c->y.cols; j++)
            c->x[0].grad[i * c->x[0].cols + *from + j] += c->y.grad[i * c->y.cols + j];
}

static const struct mf_op op = {
    .name = "cols",
    .attributes = sizeof(int),
    .flows = 1,
    .frees_inputs = true,
    .forward = forward,
    .backward = backward,
};

struct mf_val mf_slice_cols(struct mf_graph *g, struct mf_val x, int from, int n)
{
    mf_record_want(g, from >= 0 && n > 0 && from + n <= mf_cols(g, x), &op, 1, &x);
    return n == mf_cols(g, x) ? x : mf_record(g, &op, &from, 1, &x, mf_rows(g, x), n);
}
