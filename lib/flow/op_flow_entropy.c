/* op_flow_entropy.c - the entropy rate of a chain. */
#include "flow/loops.h"
#include "flow/ops.h"
#include "graph/record.h"

static void forward(const struct mf_call *c, int n)
{
    const float *scale = c->how;
    int size = c->x[0].rows * c->x[0].cols;
    for (int s = 0; s < (c->y.shared ? 1 : n); s++) {
        const float *std = c->x[0].data + (size_t)s * (size_t)size;
        double sum = 0.0;
        for (int j = 0; j < size; j++)
            sum += mf_flow_entropy_at(std[j]);
        c->y.data[s] = (float)(sum * (double)*scale);
    }
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    const float *scale = c->how;
    int size = c->x[0].rows * c->x[0].cols;
    (void)lane;
    mf_ref_zero(c, n);
    for (int s = 0; s < (c->y.shared ? 1 : n); s++)
        for (int j = 0; c->y.grad[s] != 0.0f && j < size; j++) {
            size_t at = (size_t)s * (size_t)size + (size_t)j;
            c->x[0].grad[at] += mf_flow_entropy_by_std(c->y.grad[s], *scale, c->x[0].data[at]);
        }
}

static const struct mf_op op = {
    .name = "flow_entropy",
    .attributes = sizeof(float),
    .flows = 1,
    .forward = forward,
    .backward = backward,
};

struct mf_val mf_flow_entropy(struct mf_graph *g, struct mf_val std, float scale)
{
    return mf_record(g, &op, &scale, 1, &std, 1, 1);
}
