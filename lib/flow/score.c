#include "flow/score.h"

#include <math.h>

#include "flow/chain.h"

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

    struct mf_share obs = mf_net_features(g, &s->net, out->obs, p->encoder_frozen);
    struct mf_share time = net->time(g, &s->net, out->time, out->step);
    net->encode(g, &s->net, &obs);
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

void mf_score_set(struct mf_plan *plan, const struct mf_score *s, const struct mf_policy *p)
{
    bool joint = p->spec.denoise == MF_JOINT;
    mf_chain_step_set(plan, p, joint ? p->spec.K : 1, joint ? s->time : MF_NONE, s->step, s->bounds);
    if (s->rest.id) {
        float rest = (float)(.5 * (log(6.283185307179586) + 1) / (p->spec.K + 1));
        mf_plan_set(plan, s->rest, &rest);
    }
}
