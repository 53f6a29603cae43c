/* weigh_iql.c - implicit Q-learning (Kostrikov et al. 2021): V is an expectile of the targets' Q over the demonstrated
 * actions, Q regresses to R + gamma^n V(s'), and no action of the policy is ever valued.
 *
 *   u = min Q'(s, a) - V(s);  loss of V |tau - 1(u < 0)| u^2;  advantage u
 */
#include <math.h>

#include "rl/weigh.h"

static int weigh(struct mf_offline *o, const struct mf_weigh_batch *b, float *weight, struct mf_weigh_stats *stats,
                 struct mf_err *err)
{
    const size_t n = b->n, D = (size_t)o->cloning->policy.spec.net.D;
    const float *chunk = mf_weigh_chunk(o, b->actions);
    int rc;
    if ((rc = mf_critics_target(&o->critics, n, chunk, D, b->obs, o->next_q, err)) ||
        (rc = mf_critics_value(&o->critics, n, b->obs, o->v, err)) || (rc = mf_weigh_next(o, b, err)) ||
        (rc = mf_critics_value(&o->critics, n, o->next_obs, o->next_v, err)))
        return rc;
    mf_weigh_least(o, b->step, n, o->next_q, o->v_y);
    for (size_t i = 0; i < n; i++) {
        o->advantage[i] = o->v_y[i] - o->v[i];
        o->v_weight[i] = (float)fabs(o->opts.expectile - (o->advantage[i] < 0)) / (float)n;
    }
    mf_weigh_targets(o, b, o->next_v, o->y, o->mask);
    const struct mf_critics_batch batch = {.n = n,
                                           .stride = D,
                                           .actions = chunk,
                                           .obs = b->obs,
                                           .y = o->y,
                                           .weight = o->mask,
                                           .v_y = o->v_y,
                                           .v_weight = o->v_weight};
    if ((rc = mf_critics_learn(&o->critics, &batch, o->opts.critic_rate, NULL, NULL, &stats->critic_loss, err)))
        return rc;
    mf_weigh_exp(&o->opts, n, o->advantage, weight);
    stats->q_mean = mf_weigh_mean(n, o->v_y);
    stats->advantage_mean = mf_weigh_mean(n, o->advantage);
    return 0;
}

const struct mf_weigh mf_weigh_iql = {.name = "iql", .q = true, .value = true, .weigh = weigh};
