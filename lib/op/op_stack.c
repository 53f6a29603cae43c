/* op_stack.c - operands one below the other. */
#include <string.h>

#include "dev/ref.h"
#include "graph/record.h"
#include "op/ops.h"

static void forward(const struct mf_call *c, int n)
{
    for (int s = 0; s < (c->y.shared ? 1 : n); s++) {
        float *to = c->y.data + mf_ref_sample(&c->y, s);
        for (int k = 0; k < c->n_x; k++) {
            size_t size = (size_t)c->x[k].rows * (size_t)c->x[k].cols;
            memcpy(to, c->x[k].data + mf_ref_sample(&c->x[k], s), sizeof(float) * size);
            to += size;
        }
    }
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    (void)lane;
    mf_ref_zero(c, n);
    for (int s = 0; s < (c->y.shared ? 1 : n); s++) {
        const float *d = c->y.grad + mf_ref_sample(&c->y, s);
        for (int k = 0; k < c->n_x; k++) {
            size_t size = (size_t)c->x[k].rows * (size_t)c->x[k].cols;
            for (size_t j = 0; c->x[k].grad && j < size; j++)
                c->x[k].grad[mf_ref_sample(&c->x[k], s) + j] += d[j];
            d += size;
        }
    }
}

static const struct mf_op op = {
    .name = "stack",
    .flows = ~0u,
    .frees_inputs = true,
    .forward = forward,
    .backward = backward,
};

struct mf_val mf_stack(struct mf_graph *g, int n, const struct mf_val *x)
{
    int rows = 0;
    for (int i = 0; i < n; i++) {
        mf_record_want(g, mf_cols(g, x[i]) == mf_cols(g, x[0]), &op, n, x);
        rows += mf_rows(g, x[i]);
    }
    return mf_record(g, &op, NULL, n, x, rows, mf_cols(g, x[0]));
}
