#include "flow/chain.h"

#include "flow/grid.h"
#include "nn/encoder.h"

struct mf_chain_step mf_chain_step_build(struct mf_graph *g, const struct mf_policy_spec *s, const struct mf_share *obs,
                                         const struct mf_share *time, struct mf_val x, struct mf_val coef,
                                         struct mf_val bounds, float limit)
{
    const struct mf_net *net = s->net.net;
    struct mf_val tokens = mf_net_tokens(g, &s->net, obs, time, x);
    struct mf_val v = net->velocity(g, &s->net, obs, time, tokens);
    struct mf_chain_step step = {.mean = mf_flow_mean(g, x, v, coef, limit)};
    if (bounds.id) {
        const bool timed = s->net.noise_time || !mf_net_has_encoder(&s->net);
        struct mf_val u = net->noise ? net->noise(g, &s->net, s->n_noise, s->noise, tokens)
                                     : mf_noise_net(g, MF_NOISE_NET, s->n_noise, s->noise, s->net.D,
                                                    timed ? time->embed : MF_NONE, obs->embed);
        step.std = mf_noise_std(g, u, bounds);
    }
    return step;
}

struct mf_val mf_chain_elements(struct mf_graph *g, struct mf_val chain, struct mf_chain_step step, struct mf_val coef)
{
    struct mf_val next = mf_slice_rows(g, chain, 1, mf_rows(g, chain) - 1);
    return mf_flow_logprob(g, next, step.mean, step.std, coef);
}

struct mf_val mf_chain_executable(struct mf_graph *g, const struct mf_policy_spec *s, struct mf_val x)
{
    const int A = s->action_dim, W = mf_action_width(s), H = s->horizon;
    if (!x.id || A == W)
        return x;
    const int rows = mf_rows(g, x);
    return mf_reshape(g, mf_slice_cols(g, mf_reshape(g, x, rows * H, W), 0, A), rows, H * A);
}

struct mf_val mf_chain_logprobs(struct mf_graph *g, const struct mf_policy_spec *s, struct mf_val elements,
                                struct mf_val chain)
{
    int A = s->action_dim, C = s->n_action_steps, at = s->action_offset;
    struct mf_val first = s->objective == MF_STEP ? MF_NONE : mf_slice_rows(g, chain, 0, 1);
    if (s->objective == MF_STEP || s->objective == MF_STEP_MEAN) {
        elements = mf_chain_executable(g, s, elements);
        first = mf_chain_executable(g, s, first);
    }
    switch (s->objective) {
    case MF_CHAIN_MEAN:
        return mf_reduce(g, elements, first, MF_REDUCE_ALL, A, C, at, 1.0f / (float)((s->K + 1) * s->net.D));
    case MF_CHAIN_SUM:
        return mf_reduce(g, elements, first, MF_REDUCE_ALL, A, C, at, 1);
    case MF_STEP_MEAN:
        return mf_reduce(g, elements, first, MF_REDUCE_TOKEN, A, C, at, 1.0f / (float)(s->K + 1));
    case MF_STEP:
    case MF_FPO:
    case MF_FPO_EACH:
        break;
    }
    return mf_reduce(g, elements, first, MF_REDUCE_TOKEN, A, C, at, 1);
}

void mf_chain_step_set(struct mf_plan *plan, const struct mf_policy *p, int rows, struct mf_val time,
                       struct mf_val step, struct mf_val bounds)
{
    float t[MF_STEPS_MAX], d[MF_STEPS_MAX], b[2] = {mf_policy_logvar(p->noise_low), mf_policy_logvar(p->noise_high)};
    for (int k = 0; k < rows; k++) {
        t[k] = (float)mf_flow_time(&p->spec, k);
        d[k] = p->spec.target_time == MF_TARGET_ZERO ? 0 : (float)(1.0 / p->spec.K);
    }
    if (time.id)
        mf_plan_set(plan, time, t);
    if (step.id)
        mf_plan_set(plan, step, d);
    if (bounds.id)
        mf_plan_set(plan, bounds, b);
}
