/* weigh_return.c - Monte Carlo advantages: the discounted return to the end of the episode less a fitted V (Peng et al.
 * 2019, AWR). No critic bootstraps. */
#include "rl/weigh.h"

static int weigh(struct mf_offline *o, const struct mf_weigh_batch *b, float *weight, struct mf_weigh_stats *stats,
                 struct mf_err *err)
{
    const size_t n = b->n;
    for (size_t i = 0; i < n; i++) {
        o->v_y[i] = (float)(o->opts.reward_scale * (double)o->smdp[b->sample[i]].gain);
        o->v_weight[i] = 1.0f / (float)n;
    }
    const struct mf_critics_batch batch = {.n = n, .obs = b->obs, .v_y = o->v_y, .v_weight = o->v_weight};
    int rc = mf_critics_learn(&o->critics, &batch, o->opts.critic_rate, NULL, o->v, &stats->critic_loss, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < n; i++)
        o->advantage[i] = o->v_y[i] - o->v[i];
    mf_weigh_exp(&o->opts, n, o->advantage, weight);
    stats->advantage_mean = mf_weigh_mean(n, o->advantage);
    return 0;
}

const struct mf_weigh mf_weigh_return = {.name = "return", .value = true, .weigh = weigh};
