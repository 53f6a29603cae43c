/* op_ppo_loss.c - PPO's clipped surrogate. */
#include "dev/ref.h"
#include "graph/record.h"
#include "rl/loss_at.h"
#include "rl/losses.h"

/* Element i of sample s. */
static struct mf_loss_at element(const struct mf_call *c, int s, int i)
{
    return mf_ppo_element(c->x[4].data, c->x[0].data[i], c->x[1].data[i], c->x[2].data[s]);
}

static void forward(const struct mf_call *c, int n)
{
    int E = c->x[0].cols;
    for (int s = 0; s < n; s++) {
        double sum = 0.0;
        for (int i = s * E; i < (s + 1) * E; i++)
            if (c->x[3].data[i] != 0.0f)
                sum += (double)c->x[3].data[i] * element(c, s, i).loss;
        c->y.data[s] = (float)sum;
    }
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    int E = c->x[0].cols;
    (void)lane;
    mf_ref_zero(c, n);
    for (int i = 0; i < n * E; i++) {
        double w = mf_ref_weigh(c->x[3].data[i], c->y.grad[i / E]);
        if (w != 0.0)
            c->x[0].grad[i] += (float)(w * element(c, i / E, i).slope);
    }
}

static const struct mf_op op = {
    .name = "ppo_loss",
    .flows = 1,
    .forward = forward,
    .backward = backward,
};

struct mf_val mf_ppo_loss(struct mf_graph *g, struct mf_val logp, struct mf_val old, struct mf_val adv,
                          struct mf_val weight, struct mf_val knobs)
{
    struct mf_val all[] = {logp, old, adv, weight, knobs};
    int E = mf_cols(g, logp);
    bool fits = mf_has_shape(g, logp, 1, E) && mf_has_shape(g, old, 1, E) && mf_has_shape(g, weight, 1, E) &&
                mf_has_shape(g, adv, 1, 1) && mf_has_shape(g, knobs, 1, 4) && mf_is_shared(g, knobs);
    for (int i = 0; i < 4; i++)
        fits = fits && !mf_is_shared(g, all[i]);
    mf_record_want(g, fits, &op, 5, all);
    return mf_record(g, &op, NULL, 5, all, 1, 1);
}
