#include "flow/fpo.h"

#include <math.h>

#include "base/rng.h"
#include "flow/ops.h"
#include "op/ops.h"

void mf_fpo_draw(const struct mf_policy_spec *s, uint64_t key, const struct mf_fpo_draws *to)
{
    const size_t M = (size_t)s->fpo_draws, D = (size_t)s->net.D;
    struct mf_rng rng = mf_rng_at(key, MF_RNG_FPO, 0, 0, 0);
    mf_rng_normal(&rng, to->noise, M * D);
    for (size_t m = 0; m < M; m++) {
        const float t = mf_rng_uniform(&rng);
        float *coef = to->coef + 3 * m;
        to->time[m] = t;
        coef[0] = s->convention == MF_NOISE0 ? 1 - t : t;
        coef[1] = 1 - coef[0];
        coef[2] = sqrtf(.5f);
    }
}

void mf_fpo_inputs(struct mf_graph *g, const struct mf_policy_spec *s, struct mf_fpo *f)
{
    f->noise = mf_input(g, s->fpo_draws, s->net.D);
    f->time = mf_input(g, s->fpo_draws, 1);
    f->coef = mf_input(g, s->fpo_draws, 3);
    f->sides = mf_shared(g, 1, 3);
}

struct mf_val mf_fpo_elements(struct mf_graph *g, const struct mf_policy_spec *s, const struct mf_fpo *f,
                              const struct mf_share *obs, struct mf_val step, struct mf_val sample)
{
    struct mf_val action[MF_FPO_DRAWS];
    for (int m = 0; m < s->fpo_draws; m++)
        action[m] = sample;
    const struct mf_val a = mf_stack(g, s->fpo_draws, action), x = mf_flow_mean(g, f->noise, a, f->coef, 0),
                        u = mf_flow_mean(g, a, f->noise, f->sides, 0);
    const struct mf_share time = s->net.net->time(g, &s->net, f->time, step);
    const struct mf_val tokens = mf_net_tokens(g, &s->net, obs, &time, x);
    return mf_flow_logprob(g, u, s->net.net->velocity(g, &s->net, obs, &time, tokens), MF_NONE, f->coef);
}

struct mf_val mf_fpo_logprobs(struct mf_graph *g, const struct mf_policy_spec *s, struct mf_val elements)
{
    const int M = s->fpo_draws;
    if (s->objective == MF_FPO)
        return mf_reduce(g, elements, MF_NONE, MF_REDUCE_ALL, s->action_dim, s->n_action_steps, 0,
                         1.0f / (float)(M * s->net.D));
    return mf_reduce(g, mf_transpose(g, elements, 1), MF_NONE, MF_REDUCE_TOKEN, M, 1, 0, 1.0f / (float)s->net.D);
}

void mf_fpo_set(struct mf_plan *plan, const struct mf_fpo *f, const struct mf_policy_spec *s)
{
    const float side = s->convention == MF_NOISE0 ? 1 : -1;
    mf_plan_set(plan, f->sides, (float[]){side, -side, 0});
}
