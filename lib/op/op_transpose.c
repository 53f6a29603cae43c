/* op_transpose.c - the transpose of every block of rows. */
#include "dev/ref.h"
#include "graph/record.h"
#include "op/ops.h"

/* Floats into x to element (r, c) of the block that begins at row i of y; R, C: its shape in x. */
static size_t place(int i, int r, int c, int R, int C)
{
    return (size_t)i * (size_t)R + (size_t)r * (size_t)C + (size_t)c;
}

static void forward(const struct mf_call *c, int n)
{
    int R = c->y.cols, C = c->x[0].cols;
    float *y = c->y.data;
    for (int i = 0; i < mf_tile_rows(&c->y, n); i += C)
        for (int k = 0; k < C; k++)
            for (int r = 0; r < R; r++)
                *y++ = c->x[0].data[place(i, r, k, R, C)];
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    int R = c->y.cols, C = c->x[0].cols;
    const float *g = c->y.grad;
    (void)lane;
    mf_ref_zero(c, n);
    for (int i = 0; i < mf_tile_rows(&c->y, n); i += C)
        for (int k = 0; k < C; k++)
            for (int r = 0; r < R; r++)
                c->x[0].grad[place(i, r, k, R, C)] += *g++;
}

static const struct mf_op op = {
    .name = "transpose",
    .flows = 1,
    .frees_inputs = true,
    .forward = forward,
    .backward = backward,
};

struct mf_val mf_transpose(struct mf_graph *g, struct mf_val x, int blocks)
{
    int rows = mf_rows(g, x);
    mf_record_want(g, blocks > 0 && rows % blocks == 0, &op, 1, &x);
    return mf_record(g, &op, NULL, 1, &x, blocks * mf_cols(g, x), rows / blocks);
}
