#include "flow/score.h"

#include <math.h>

#include "flow/chain.h"
#include "flow/latent.h"

/* The inputs of the observation and the step size, and the observation's features. */
static struct mf_share begin(struct mf_graph *g, const struct mf_policy *p, int k, struct mf_score *out)
{
    const struct mf_net_spec *net = &p->spec.net;
    out->obs = mf_input(g, 1, net->O);
    if (net->net->step_size)
        out->step = mf_shared(g, k, 1);
    struct mf_share obs = mf_net_features(g, net, out->obs, false);
    if (net->net->encode)
        net->net->encode(g, net, &obs);
    return out->encoded = obs;
}

static void build_fpo(struct mf_graph *g, struct mf_policy *p, struct mf_score *out)
{
    const struct mf_policy_spec *s = &p->spec;
    const struct mf_share obs = begin(g, p, s->fpo_draws, out);
    out->chain = mf_input(g, 1, s->net.D);
    mf_fpo_inputs(g, s, &out->fpo);
    out->time = out->fpo.time;
    out->coef = out->fpo.coef;
    out->elements = mf_fpo_elements(g, s, &out->fpo, &obs, out->step, out->chain);
    out->logprobs = mf_fpo_logprobs(g, s, out->elements);
    if (s->n_critic)
        out->value = mf_net_value(g, &s->net, s->n_critic, s->critic, &obs);
}

static void build_chain(struct mf_graph *g, struct mf_policy *p, struct mf_score *out)
{
    const struct mf_policy_spec *s = &p->spec;
    const struct mf_net *net = s->net.net;
    bool joint = s->denoise == MF_JOINT;
    int k = joint ? s->K : 1, D = s->net.D;

    const struct mf_share obs = begin(g, p, k, out);
    out->chain = mf_input(g, k + 1, D);
    out->coef = mf_input(g, k, 3);
    out->time = joint ? mf_shared(g, k, 1) : mf_input(g, 1, 1);
    if (s->learned_noise)
        out->bounds = mf_shared(g, 1, 2);

    const struct mf_share time = net->time(g, &s->net, out->time, out->step);
    struct mf_val x = mf_slice_rows(g, out->chain, 0, k);
    struct mf_chain_step step = mf_chain_step_build(g, s, &obs, &time, x, out->coef, out->bounds, s->mean_limit);
    out->elements = mf_chain_elements(g, out->chain, step, out->coef);
    out->logprobs = mf_chain_logprobs(g, s, out->elements, out->chain);
    if (step.std.id) {
        const int each = k / mf_rows(g, step.std); /* steps that share a row of standard deviations */
        out->entropy = mf_flow_entropy(g, step.std, (float)each / (float)((joint ? k + 1 : 1) * D));
        if (joint) { /* the mean is over K+1 entries, of which the initial noise is one, with std 1 */
            out->rest = mf_shared(g, 1, 1);
            out->entropy = mf_add(g, out->entropy, out->rest);
        }
    }
    if (s->n_critic)
        out->value = mf_net_value(g, &s->net, s->n_critic, s->critic, &obs);
}

/* The flow is frozen, and no part of the graph. */
static void build_latent(struct mf_graph *g, struct mf_policy *p, struct mf_score *out)
{
    const struct mf_policy_spec *s = &p->spec;
    out->obs = mf_input(g, 1, s->net.O);
    out->chain = mf_input(g, 1, s->net.D);
    out->unit = mf_shared(g, 1, 3);
    const struct mf_share obs = mf_net_features(g, &s->net, out->obs, true);
    const struct mf_steering latent = mf_latent_build(g, s, &obs);
    out->elements = mf_latent_elements(g, &latent, out->chain, out->unit);
    out->logprobs = mf_latent_logprobs(g, s, out->elements);
    out->entropy = mf_latent_entropy(g, s, &latent);
    if (s->n_critic)
        out->value = mf_net_value(g, &s->net, s->n_critic, s->critic, &obs);
}

void mf_score_build(struct mf_graph *g, struct mf_policy *p, struct mf_score *out)
{
    *out = (struct mf_score){.obs = MF_NONE};
    if (p->spec.steer)
        build_latent(g, p, out);
    else if (mf_policy_is_fpo(&p->spec))
        build_fpo(g, p, out);
    else
        build_chain(g, p, out);
}

void mf_score_params(struct mf_policy *p)
{
    struct mf_score score = {.obs = MF_NONE};
    struct mf_graph *g = mf_graph_new(&p->params);
    if (p->spec.steer) /* scoring does without the flow */
        build_chain(g, p, &score);
    mf_score_build(g, p, &score);
    mf_graph_free(g);
}

void mf_score_set(struct mf_plan *plan, const struct mf_score *s, const struct mf_policy *p)
{
    bool joint = p->spec.denoise == MF_JOINT;
    if (s->unit.id) {
        mf_latent_set(plan, s->unit);
        return;
    }
    if (s->fpo.sides.id) {
        mf_fpo_set(plan, &s->fpo, &p->spec);
        mf_chain_step_set(plan, p, p->spec.fpo_draws, MF_NONE, s->step, MF_NONE);
        return;
    }
    mf_chain_step_set(plan, p, joint ? p->spec.K : 1, joint ? s->time : MF_NONE, s->step, s->bounds);
    if (s->rest.id) {
        float rest = (float)(.5 * (log(6.283185307179586) + 1) / (p->spec.K + 1));
        mf_plan_set(plan, s->rest, &rest);
    }
}
