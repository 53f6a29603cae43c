#include "rl/weigh.h"

#include <math.h>

#include "base/rng.h"

double mf_weigh_mean(size_t n, const float *x)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i];
    return n ? sum / (double)n : 0;
}

void mf_weigh_mean_1(size_t n, float *weight)
{
    const double mean = mf_weigh_mean(n, weight);
    for (size_t i = 0; i < n && mean > 0; i++)
        weight[i] = (float)((double)weight[i] / mean);
}

void mf_weigh_exp(const struct mf_offline_opts *o, size_t n, const float *advantage, float *weight)
{
    for (size_t i = 0; i < n; i++) {
        const double w = exp(o->beta * (double)advantage[i]);
        weight[i] = (float)(w > o->clip ? o->clip : w); /* NaN stays */
    }
    mf_weigh_mean_1(n, weight);
}

void mf_weigh_targets(const struct mf_offline *o, const struct mf_weigh_batch *b, const float *next, float *y,
                      float *mask)
{
    const double most = MF_WEIGH_MOST;
    for (size_t i = 0; i < b->n; i++) {
        const struct mf_smdp *s = &o->smdp[b->sample[i]];
        const double after = s->discount > 0 ? (double)s->discount * (double)next[i] : 0,
                     value = o->opts.reward_scale * (double)s->reward + after;
        y[i] = (float)(value > most ? most : value < -most ? -most : value); /* NaN stays */
        mask[i] = 1.0f / (float)b->n;
        if (!mf_smdp_has_target(s))
            y[i] = mask[i] = 0;
    }
}

int mf_weigh_next(struct mf_offline *o, const struct mf_weigh_batch *b, struct mf_err *err)
{
    for (size_t i = 0; i < b->n; i++)
        o->ahead[i] = o->smdp[b->sample[i]].terminates ? 0 : o->smdp[b->sample[i]].ahead;
    return mf_dataset_after(&o->cloning->windows, b->n, b->sample, o->ahead, o->next_obs, err);
}

void mf_weigh_least(const struct mf_offline *o, int64_t step, size_t n, const float *q, float *least)
{
    const int N = (int)o->opts.critics;
    int pair[2] = {0, 1};
    struct mf_rng rng = mf_rng_at((uint64_t)o->cloning->opts.seed, MF_RNG_WEIGH, UINT32_MAX >> 8,
                                  (uint32_t)(step >> 32), (uint32_t)step);
    if (N > 2)
        mf_qnet_pair(N, &rng, pair);
    for (size_t i = 0; i < n; i++)
        least[i] = mf_qnet_min(q + i * (size_t)N, N > 2 ? 2 : N, pair);
}

const float *mf_weigh_chunk(const struct mf_offline *o, const float *actions)
{
    const struct mf_policy_spec *s = &o->cloning->policy.spec;
    return actions + s->action_offset * mf_action_width(s);
}
