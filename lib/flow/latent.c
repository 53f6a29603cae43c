#include "flow/latent.h"

#include "flow/chain.h"
#include "flow/ops.h"
#include "op/ops.h"

static const float low = -5, low_sac = -20, high = 2; /* of log sigma */

struct mf_steering mf_latent_of(struct mf_graph *g, const struct mf_policy_spec *s, struct mf_val summary)
{
    const struct mf_latent l = mf_latent_actor(g, s->n_steer_hidden, s->steer_hidden, s->net.D, summary);
    return (struct mf_steering){.mean = l.mean,
                                .std = mf_latent_std(g, l.logstd, s->steer == MF_STEER_SAC ? low_sac : low, high)};
}

struct mf_steering mf_latent_build(struct mf_graph *g, const struct mf_policy_spec *s, const struct mf_share *obs)
{
    return mf_latent_of(g, s, mf_net_summary(g, &s->net, obs));
}

struct mf_val mf_latent_noise(struct mf_graph *g, const struct mf_policy_spec *s, const struct mf_steering *l,
                              struct mf_val eps)
{
    const float magnitude = s->steer == MF_STEER_SAC ? s->steer_magnitude : 0;
    return mf_latent_draw(g, l->mean, l->std, eps, magnitude);
}

void mf_latent_set(struct mf_plan *plan, struct mf_val unit)
{
    mf_plan_set(plan, unit, (float[]){0, 0, 1});
}

struct mf_val mf_latent_elements(struct mf_graph *g, const struct mf_steering *l, struct mf_val z, struct mf_val unit)
{
    return mf_flow_logprob(g, z, l->mean, l->std, unit);
}

struct mf_val mf_latent_logprobs(struct mf_graph *g, const struct mf_policy_spec *s, struct mf_val elements)
{
    const enum mf_reduce to = s->steer_logprob == MF_STEER_ALL ? MF_REDUCE_ALL : MF_REDUCE_TOKEN;
    if (to == MF_REDUCE_TOKEN)
        elements = mf_chain_executable(g, s, elements);
    return mf_reduce(g, elements, MF_NONE, to, s->action_dim, s->n_action_steps, s->action_offset, 1);
}

struct mf_val mf_latent_entropy(struct mf_graph *g, const struct mf_policy_spec *s, const struct mf_steering *l)
{
    struct mf_val std = l->std;
    if (s->steer_logprob == MF_STEER_EXECUTED)
        std = mf_slice_cols(g, mf_chain_executable(g, s, std), s->action_offset * s->action_dim,
                            s->n_action_steps * s->action_dim);
    return mf_flow_entropy(g, std, 1.0f / (float)mf_cols(g, std));
}
