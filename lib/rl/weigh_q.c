/* weigh_q.c - AW-shortcut (stage 2 of the ReinFlow document): critics of the policy that learns, by its average.
 *
 *   y = clip(scale R + gamma^n min Q'(s', pi(s'))),  pi: K Euler steps from fresh noise, within +-1
 *   advantage = min Q(s, a) - its mean over the minibatch
 */
#include <math.h>

#include "base/rng.h"
#include "rl/weigh.h"

/* Actions of the averaged policy in the next states, to points (n, D). */
static int act(struct mf_offline *o, const struct mf_weigh_batch *b, struct mf_err *err)
{
    struct mf_cloning *c = o->cloning;
    const size_t D = (size_t)c->policy.spec.net.D;
    int rc = mf_weigh_next(o, b, err);
    for (size_t i = 0; i < b->n; i++) {
        struct mf_rng rng =
            mf_rng_at((uint64_t)c->opts.seed, MF_RNG_WEIGH, (uint32_t)i, (uint32_t)(b->step >> 32), (uint32_t)b->step);
        mf_rng_normal(&rng, o->noise + i * D, D);
    }
    if (rc ||
        (rc = mf_weights_copy(c->engine, &o->actor.params, &c->policy.params, &c->optimizer.adam, MF_AVERAGED, err)) ||
        (rc = mf_sampler_points(o->sampler, (int)b->n, o->next_obs, o->noise, o->points, err)))
        return rc;
    for (size_t i = 0; i < b->n * D; i++)
        o->points[i] = o->points[i] > 1 ? 1 : o->points[i] < -1 ? -1 : o->points[i]; /* NaN stays */
    return 0;
}

static int weigh(struct mf_offline *o, const struct mf_weigh_batch *b, float *weight, struct mf_weigh_stats *stats,
                 struct mf_err *err)
{
    const size_t n = b->n, D = (size_t)o->cloning->policy.spec.net.D;
    int rc = act(o, b, err);
    if (rc || (rc = mf_critics_target(&o->critics, n, mf_weigh_chunk(o, o->points), D, o->next_obs, o->next_q, err)))
        return rc;
    mf_weigh_least(o, b->step, n, o->next_q, o->next_v);
    mf_weigh_targets(o, b, o->next_v, o->y, o->mask);
    const struct mf_critics_batch batch = {
        .n = n, .stride = D, .actions = mf_weigh_chunk(o, b->actions), .obs = b->obs, .y = o->y, .weight = o->mask};
    if ((rc = mf_critics_learn(&o->critics, &batch, o->opts.critic_rate, o->q, NULL, &stats->critic_loss, err)))
        return rc;
    mf_weigh_least(o, b->step, n, o->q, o->v);
    stats->q_mean = mf_weigh_mean(n, o->v);
    for (size_t i = 0; i < n; i++)
        o->advantage[i] = (float)((double)o->v[i] - stats->q_mean);
    mf_weigh_exp(&o->opts, n, o->advantage, weight);
    stats->advantage_mean = mf_weigh_mean(n, o->advantage);
    return 0;
}

const struct mf_weigh mf_weigh_q = {.name = "q", .q = true, .acts = true, .weigh = weigh};
