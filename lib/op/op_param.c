/* op_param.c - a parameter as a value. */
#include <string.h>

#include "dev/ref.h"
#include "graph/record.h"
#include "op/ops.h"

static void forward(const struct mf_call *c, int n)
{
    (void)n;
    memcpy(c->y.data, c->W, sizeof(float) * (size_t)c->y.rows * (size_t)c->y.cols);
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    (void)n;
    for (ptrdiff_t i = 0; i < (ptrdiff_t)c->y.rows * c->y.cols; i++)
        lane[c->dW + i] += c->y.grad[i];
}

static const struct mf_op op = {
    .name = "param",
    .forward = forward,
    .backward = backward,
};

struct mf_val mf_param_value(struct mf_graph *g, int W)
{
    const struct mf_param *w = &mf_graph_params(g)->p[W];
    struct mf_val y = mf_record(g, &op, NULL, 0, NULL, w->rows, w->cols);
    mf_record_of(g, y)->W = W;
    return y;
}
