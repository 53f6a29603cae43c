/* weigh_success.c - filtered cloning: samples of episodes that succeeded weigh the same, the others nothing. */
#include "rl/weigh.h"

static int weigh(struct mf_offline *o, const struct mf_weigh_batch *b, float *weight, struct mf_weigh_stats *stats,
                 struct mf_err *err)
{
    (void)stats, (void)err;
    for (size_t i = 0; i < b->n; i++)
        weight[i] = o->smdp[b->sample[i]].success;
    mf_weigh_mean_1(b->n, weight);
    return 0;
}

const struct mf_weigh mf_weigh_success = {.name = "success", .weigh = weigh};
