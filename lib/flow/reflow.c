#include "flow/reflow.h"

#include "flow/chain.h"

void mf_reflow_build(struct mf_graph *g, const struct mf_policy_spec *s, const struct mf_share *obs,
                     struct mf_reflow *to)
{
    const struct mf_net *net = s->net.net;
    const int D = s->net.D;
    *to = (struct mf_reflow){.x = mf_input(g, 1, D),
                             .target = mf_input(g, 1, D),
                             .time = mf_input(g, 1, 1),
                             .weight = mf_input(g, 1, 1),
                             .step = net->step_size ? mf_shared(g, 1, 1) : MF_NONE};
    const struct mf_share time = net->time(g, &s->net, to->time, to->step);
    const struct mf_val tokens = mf_net_tokens(g, &s->net, obs, &time, to->x);
    to->loss = mf_mse(g, net->velocity(g, &s->net, obs, &time, tokens), to->target, to->weight);
    mf_loss(g, to->loss, 1);
}

void mf_reflow_set(struct mf_plan *plan, const struct mf_reflow *r, const struct mf_policy *p)
{
    mf_chain_step_set(plan, p, 1, MF_NONE, r->step, MF_NONE);
}

void mf_reflow_point(const struct mf_policy_spec *s, const float *z1, const float *z0, float t, float *x, float *target,
                     float *time)
{
    const bool noise1 = s->convention == MF_NOISE1;
    *time = noise1 ? t : 1 - t;
    for (int j = 0; j < s->net.D; j++) {
        x[j] = t * z1[j] + (1 - t) * z0[j];
        target[j] = noise1 ? z1[j] - z0[j] : z0[j] - z1[j];
    }
}
