/* op_value_loss.c - the critic's loss. */
#include "dev/ref.h"
#include "graph/record.h"
#include "rl/loss_at.h"
#include "rl/losses.h"

static struct mf_loss_at element(const struct mf_call *c, int s)
{
    return mf_value_element(c->x[4].data, c->x[0].data[s], c->x[1].data[s], c->x[2].data[s]);
}

static void forward(const struct mf_call *c, int n)
{
    for (int s = 0; s < n; s++) {
        double w = (double)c->x[3].data[s];
        c->y.data[s] = w == 0.0 ? 0.0f : (float)(w * element(c, s).loss);
    }
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    (void)lane;
    mf_ref_zero(c, n);
    for (int s = 0; s < n; s++) {
        double w = mf_ref_weigh(c->x[3].data[s], c->y.grad[s]);
        if (w != 0.0)
            c->x[0].grad[s] += (float)(w * element(c, s).slope);
    }
}

static const struct mf_op op = {
    .name = "value_loss",
    .flows = 1,
    .forward = forward,
    .backward = backward,
};

struct mf_val mf_value_loss(struct mf_graph *g, struct mf_val v, struct mf_val ret, struct mf_val old,
                            struct mf_val weight, struct mf_val knobs)
{
    struct mf_val all[] = {v, ret, old, weight, knobs};
    bool fits = mf_has_shape(g, knobs, 1, 4) && mf_is_shared(g, knobs);
    for (int i = 0; i < 4; i++)
        fits = fits && mf_has_shape(g, all[i], 1, 1) && !mf_is_shared(g, all[i]);
    mf_record_want(g, fits, &op, 5, all);
    return mf_record(g, &op, NULL, 5, all, 1, 1);
}
