/* op_ppo_loss.c - PPO's clipped surrogate. */
#include <math.h>

#include "dev/ref.h"
#include "graph/record.h"
#include "rl/losses.h"

double mf_within(double x, double limit)
{
    return limit <= 0.0 ? x : x < -limit ? -limit : x > limit ? limit : x;
}

struct mf_loss_at mf_ppo_loss_at(double ratio, double adv, double eps, double dual)
{
    double clipped = ratio < 1.0 - eps ? 1.0 - eps : ratio > 1.0 + eps ? 1.0 + eps : ratio;
    struct mf_loss_at p = {-adv * ratio, -adv * ratio};
    if (-adv * clipped > p.loss)
        p = (struct mf_loss_at){-adv * clipped, 0.0};
    if (dual > 0.0 && adv < 0.0 && p.loss > dual * -adv)
        p = (struct mf_loss_at){dual * -adv, 0.0};
    return p;
}

/* Element i of sample s. */
static struct mf_loss_at element(const struct mf_call *c, int s, int i)
{
    const float *knobs = c->x[4].data;
    double logp = (double)c->x[0].data[i], old = (double)c->x[1].data[i], clamp = (double)knobs[2];
    struct mf_loss_at p = mf_ppo_loss_at(exp(mf_within(logp, clamp) - mf_within(old, clamp)), (double)c->x[2].data[s],
                                         (double)knobs[0], (double)knobs[1]);
    if (clamp > 0.0 && fabs(logp) > clamp)
        p.slope = 0.0;
    return p;
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
