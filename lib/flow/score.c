#include "dev/op.h"
#include "flow/chain.h"

#include <math.h>

struct mf_chain_step mf_chain_step_build(struct mf_graph *g, const struct mf_policy_spec *s, const struct mf_share *obs,
                                         const struct mf_share *time, struct mf_val x, struct mf_val coef,
                                         struct mf_val bounds, float limit)
{
    struct mf_val v = s->net.net->velocity(g, &s->net, obs, time, x);
    struct mf_chain_step step = {.mean = mf_flow_mean(g, x, v, coef, limit)};
    if (bounds.id) {
        struct mf_val u = mf_noise_net(g, s->n_noise, s->noise, s->net.D, time->embed, obs->embed);
        step.std = mf_noise_std(g, u, bounds);
    }
    return step;
}

struct mf_val mf_chain_elements(struct mf_graph *g, struct mf_val chain, struct mf_chain_step step, struct mf_val coef)
{
    struct mf_val next = mf_slice_rows(g, chain, 1, mf_rows(g, chain) - 1);
    return mf_flow_logprob(g, next, step.mean, step.std, coef);
}

struct mf_val mf_chain_logprobs(struct mf_graph *g, const struct mf_policy_spec *s, struct mf_val elements,
                                struct mf_val chain)
{
    int A = s->action_dim, C = s->n_action_steps, at = s->action_offset;
    struct mf_val first = s->objective == MF_STEP ? MF_NONE : mf_slice_rows(g, chain, 0, 1);
    switch (s->objective) {
    case MF_CHAIN_MEAN:
        return mf_reduce(g, elements, first, MF_REDUCE_ALL, A, C, at, 1.0f / (float)((s->K + 1) * s->net.D));
    case MF_CHAIN_SUM:
        return mf_reduce(g, elements, first, MF_REDUCE_ALL, A, C, at, 1);
    case MF_STEP_MEAN:
        return mf_reduce(g, elements, first, MF_REDUCE_TOKEN, A, C, at, 1.0f / (float)(s->K + 1));
    case MF_STEP:
        break;
    }
    return mf_reduce(g, elements, first, MF_REDUCE_TOKEN, A, C, at, 1);
}

int mf_logprob_width(const struct mf_policy_spec *s)
{
    bool whole = s->objective == MF_CHAIN_MEAN || s->objective == MF_CHAIN_SUM;
    return whole ? 1 : s->n_action_steps * s->action_dim;
}

void mf_score_build(struct mf_graph *g, struct mf_policy *p, struct mf_score *out)
{
    const struct mf_policy_spec *s = &p->spec;
    const struct mf_net *net = s->net.net;
    bool joint = s->denoise == MF_JOINT;
    int k = joint ? s->K : 1, D = s->net.D;

    *out =
        (struct mf_score){.obs = mf_input(g, 1, s->net.O), .chain = mf_input(g, k + 1, D), .coef = mf_input(g, k, 3)};
    out->time = joint ? mf_shared(g, k, 1) : mf_input(g, 1, 1);
    if (net->step_size)
        out->step = mf_shared(g, k, 1);
    if (s->learned_noise)
        out->bounds = mf_shared(g, 1, 2);

    struct mf_share obs = mf_net_see(g, &s->net, out->obs, p->encoder_frozen);
    struct mf_share time = net->time(g, &s->net, out->time, out->step);
    net->encode(g, &s->net, &obs);
    struct mf_val x = mf_slice_rows(g, out->chain, 0, k);
    struct mf_chain_step step = mf_chain_step_build(g, s, &obs, &time, x, out->coef, out->bounds, s->mean_limit);
    out->elements = mf_chain_elements(g, out->chain, step, out->coef);
    out->logprobs = mf_chain_logprobs(g, s, out->elements, out->chain);
    if (step.std.id) {
        out->entropy = mf_flow_entropy(g, step.std, 1.0f / (float)((joint ? k + 1 : 1) * D));
        if (joint) { /* the mean is over K+1 entries: the initial noise is one, of std 1 */
            out->rest = mf_shared(g, 1, 1);
            out->entropy = mf_add(g, out->entropy, out->rest);
        }
    }
    if (s->n_critic)
        out->value = mf_net_value(g, &s->net, s->n_critic, s->critic, &obs);
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

void mf_score_set(struct mf_plan *plan, const struct mf_score *s, const struct mf_policy *p)
{
    bool joint = p->spec.denoise == MF_JOINT;
    mf_chain_step_set(plan, p, joint ? p->spec.K : 1, joint ? s->time : MF_NONE, s->step, s->bounds);
    if (s->rest.id) {
        float rest = (float)(.5 * (log(6.283185307179586) + 1) / (p->spec.K + 1));
        mf_plan_set(plan, s->rest, &rest);
    }
}
