/* weigh.h - an estimator of advantages in demonstrations.
 *
 * It is one file, lib/rl/weigh_NAME.c, that defines `mf_weigh_NAME`; the key clone.weight=NAME then finds it.
 */
#ifndef MF_RL_WEIGH_H
#define MF_RL_WEIGH_H

#include "rl/offline.h"

struct mf_weigh { /* an estimator */
    const char *name;
    bool q, value; /* the critics that it trains */
    bool acts;     /* it needs actions of the policy that learns, in the next states */
    /* As mf_weighing's. It leaves out the statistics of the weights. */
    int (*weigh)(struct mf_offline *o, const struct mf_weigh_batch *b, float *weight, struct mf_weigh_stats *stats,
                 struct mf_err *err);
};
extern const struct mf_weigh *const mf_weighs[]; /* ends with NULL; made from the file names */

/* ---- what they share ---- */

/* weight = min(exp(beta advantage), clip), of mean 1. */
void mf_weigh_exp(const struct mf_offline_opts *o, size_t n, const float *advantage, float *weight);
void mf_weigh_mean_1(size_t n, float *weight); /* of weights that are not all 0 */
double mf_weigh_mean(size_t n, const float *x);
/* y = reward_scale R + gamma^n next, within +-MF_WEIGH_MOST, and mask = 1/n; of a sample that has no target both are
 * 0. */
enum { MF_WEIGH_MOST = 100 };
void mf_weigh_targets(const struct mf_offline *o, const struct mf_weigh_batch *b, const float *next, float *y,
                      float *mask);
/* The observations in which the chunks end, to next_obs. */
int mf_weigh_next(struct mf_offline *o, const struct mf_weigh_batch *b, struct mf_err *err);
/* The smaller value of two critics, of each row of q (n, N): those of the minibatch `step`. */
void mf_weigh_least(const struct mf_offline *o, int64_t step, size_t n, const float *q, float *least);
/* The executed chunk in actions (n, D): its first float. */
const float *mf_weigh_chunk(const struct mf_offline *o, const float *actions);

#endif
