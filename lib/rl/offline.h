/* offline.h - offline reinforcement learning by weighted cloning: a sample counts as much as its action was good.
 *
 *   weight = min(exp(beta A), clip) / mean over the minibatch
 *
 * An estimator (weigh.h) gives the advantage A of the samples of a minibatch. Rewards and values are in units of
 * clone.reward_scale.
 */
#ifndef MF_RL_OFFLINE_H
#define MF_RL_OFFLINE_H

#include "conf/conf.h"
#include "demos/demos.h"
#include "flow/cloning.h"
#include "flow/sampler.h"
#include "rl/critics.h"
#include "rl/smdp.h"

struct mf_offline_opts {
    const char *weight; /* the estimator's name, or "none" */
    double beta, clip, gamma, reward_scale, expectile, tau, critic_rate;
    int64_t critics;
    struct mf_ints hidden;
};
extern const struct mf_bind mf_offline_binds[];

struct mf_weigh;

struct mf_offline {
    struct mf_offline_opts opts;
    const struct mf_weigh *kind; /* NULL: all samples weigh the same */
    struct mf_cloning *cloning;  /* borrowed */
    struct mf_smdp *smdp;        /* (samples) */
    struct mf_critics critics;
    struct mf_policy actor; /* the average of the policy that learns, where `acts` */
    struct mf_sampler *sampler;
    struct mf_weighing seam; /* for mf_cloning.weighing */
    /* of a minibatch of n: (n, O) next observations, (n, D) noise and points, (n, N) values, (n) each */
    float *next_obs, *noise, *points, *q, *next_q, *v, *next_v, *y, *mask, *v_y, *v_weight, *advantage;
    int32_t *ahead; /* (n) */
    int64_t alike;  /* minibatches in a row whose samples all weighed the same; -1: the log has it */
    struct mf_arena arena;
};

/* Attaches the estimator of opts->weight to a cloning that is open. MF_EUSAGE: there is no such estimator, or it cannot
 * learn from these observations; MF_EFORMAT: the demonstrations have no rewards. */
int mf_offline_open(struct mf_offline *o, const struct mf_offline_opts *opts, struct mf_cloning *c, struct mf_err *err);
void mf_offline_release(struct mf_offline *o); /* safe on a zeroed one; before the cloning's */
/* Its metrics, train/critic_loss, .., of stats summed over the `taken` minibatches since the last call; none without an
 * estimator. The log tells of demonstrations of one quality, which teach no more than plain cloning does. */
void mf_offline_report(struct mf_offline *o, const struct mf_weigh_stats *sums, int64_t taken, struct mf_frame *m);
/* Adds the estimated memory of such an estimator of an outlined cloning, and finds it: errors as above. */
int mf_offline_memory(const struct mf_demos *d, const struct mf_offline_opts *opts, struct mf_cloning *c,
                      struct mf_memory *to, struct mf_err *err);

#endif
