/* op_weigh.c - a sample's weight. 0 is a masked sample: nothing of it is read, its gradient is 0. */
#include "dev/ref.h"
#include "graph/record.h"
#include "op/loops.h"
#include "op/ops.h"

static void forward(const struct mf_call *c, int n)
{
    size_t size = (size_t)c->y.rows * (size_t)c->y.cols;
    for (int s = 0; s < (c->y.shared ? 1 : n); s++) {
        const float *x = c->x[0].data + mf_ref_sample(&c->x[0], s);
        float *y = c->y.data + mf_ref_sample(&c->y, s), w = c->x[1].data[mf_ref_sample(&c->x[1], s)];
        for (size_t j = 0; j < size; j++)
            y[j] = mf_weighed(w, x[j]);
    }
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    size_t size = (size_t)c->y.rows * (size_t)c->y.cols;
    (void)lane;
    mf_ref_zero(c, n);
    for (int s = 0; s < (c->y.shared ? 1 : n); s++) {
        const float *d = c->y.grad + mf_ref_sample(&c->y, s);
        float *dx = c->x[0].grad + mf_ref_sample(&c->x[0], s), w = c->x[1].data[mf_ref_sample(&c->x[1], s)];
        for (size_t j = 0; w != 0.0f && j < size; j++)
            dx[j] += mf_weighed(d[j], w);
    }
}

static const struct mf_op op = {
    .name = "weigh",
    .flows = 1,
    .forward = forward,
    .backward = backward,
};

struct mf_val mf_weigh(struct mf_graph *g, struct mf_val x, struct mf_val weight)
{
    struct mf_val all[] = {x, weight};
    mf_record_want(g, mf_has_shape(g, weight, 1, 1), &op, 2, all);
    return mf_record(g, &op, NULL, 2, all, mf_rows(g, x), mf_cols(g, x));
}
