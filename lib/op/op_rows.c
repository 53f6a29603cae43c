/* op_rows.c - some rows of each sample. */
#include <string.h>

#include "dev/ref.h"
#include "graph/record.h"
#include "op/ops.h"

static void forward(const struct mf_call *c, int n)
{
    const int *from = c->how;
    size_t skip = (size_t)*from * (size_t)c->y.cols, size = (size_t)c->y.rows * (size_t)c->y.cols;
    for (int s = 0; s < (c->y.shared ? 1 : n); s++)
        memcpy(c->y.data + mf_ref_sample(&c->y, s), c->x[0].data + mf_ref_sample(&c->x[0], s) + skip,
               sizeof(float) * size);
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    const int *from = c->how;
    size_t skip = (size_t)*from * (size_t)c->y.cols, size = (size_t)c->y.rows * (size_t)c->y.cols;
    (void)lane;
    mf_ref_zero(c, n);
    for (int s = 0; s < (c->y.shared ? 1 : n); s++)
        for (size_t j = 0; j < size; j++)
            c->x[0].grad[mf_ref_sample(&c->x[0], s) + skip + j] += c->y.grad[mf_ref_sample(&c->y, s) + j];
}

static const struct mf_op op = {
    .name = "rows",
    .attributes = sizeof(int),
    .flows = 1,
    .frees_inputs = true,
    .forward = forward,
    .backward = backward,
};

struct mf_val mf_slice_rows(struct mf_graph *g, struct mf_val x, int from, int n)
{
    mf_record_want(g, from >= 0 && n > 0 && from + n <= mf_rows(g, x), &op, 1, &x);
    return n == mf_rows(g, x) ? x : mf_record(g, &op, &from, 1, &x, n, mf_cols(g, x));
}
