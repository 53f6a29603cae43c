/* ppo.h - proximal policy optimisation over denoising chains.
 *
 *   ratio = exp(new - old)                          Schulman et al. 2017, eq. 7
 *   L     = mean max(-A ratio, -A clip(ratio, 1-eps, 1+eps)) + c_v (V-R)^2 - c_h H
 *
 * For rollouts of an older policy, see proximal.h; for a loss that straightens the flow, rfc.h.
 *
 * The log-probability is the chain's (ReinFlow, Zhang et al. 2025) or one
 * denoising step's (RLinf), as the policy's objective says.
 */
#ifndef MF_RL_PPO_H
#define MF_RL_PPO_H

#include "base/err.h"
#include "conf/conf.h"
#include "flow/policy.h"
#include "graph/plan.h"
#include "nn/net.h"
#include "flow/optimizer.h"
#include "rl/rows.h"

enum mf_ppo_level { MF_TOKEN, MF_ACTION, MF_CHUNK }; /* the granularity of the ratio, for step objectives */
enum mf_loss_agg { MF_AGG_MEAN, MF_AGG_TRAJECTORY }; /* RLinf's mean over steps/max_steps */
enum mf_clip { MF_CLIP_GLOBAL, MF_CLIP_SEPARATE };   /* one gradient norm, or one per network */
enum mf_trust_region { MF_TRUST_CLIP, MF_TRUST_ASPO };
enum mf_normalize_over { MF_OVER_ROUND, MF_OVER_MINIBATCH };

struct mf_ppo_opts { /* the keys of that name, which conf/training.inc explains; target_kl 0: no stop */
    int64_t seed;
#define PPO(group, key, type, ...) MF_VALUE_##type(key)
#include "conf/training.inc"
};

struct mf_ppo; /* plans, optimiser state, counters */

/* Borrows engine and policy. A policy without a critic is trained by its advantages alone, without a warm-up. It trains
 * the policy in place; frozen groups keep their weights. */
int mf_ppo_new(struct mf_ppo **ppo, struct mf_engine *e, struct mf_policy *p, const struct mf_ppo_opts *opts,
               struct mf_err *err);
/* Adds the estimated memory of rounds of n decisions, without the policy's weights; also of an outline. */
void mf_ppo_memory(const struct mf_ppo *ppo, size_t n, struct mf_memory *to);
void mf_ppo_free(struct mf_ppo *ppo);

unsigned mf_ppo_needs(const struct mf_ppo *ppo);           /* enum mf_rows_extra of the rows */
struct mf_optimizer *mf_ppo_optimizer(struct mf_ppo *ppo); /* its count of minibatches times the critic's warm-up */

/* Statistics of an update: means over its minibatches unless noted, NaN where none has a value: those of the policy are
 * over the minibatches after the critic's warm-up. KL and ratios compare the new policy with the
 * proximal one; their means are weighted by p/b, as over samples of the proximal policy. */
struct mf_ppo_stats {
    double policy_loss, value_loss, entropy; /* value_loss NaN: no critic */
    double kl_k1, kl_k3;                     /* -mean(lr), mean((r-1)-lr) */
    double clip_fraction, ratio_mean, ratio_max, clamped_fraction;
    double grad_norm, critic_grad_norm; /* before clipping */
    double explained_variance;          /* of the rollout's values; NaN: constant returns, or no critic */
    double logratio_gap;                /* largest |new - old| on the first minibatch: 0 on the device that sampled */
    double correction_max;              /* largest p/b of the rows, see proximal.h; NaN: none */
    double rfc_loss, reflow_mask_ratio; /* rfc.h: its loss before the coefficient, its mean of m; NaN: off */
    double learning_rate;
    int64_t minibatches, skipped; /* processed; skipped, with a non-finite gradient */
    bool kl_stop, lagged;         /* lagged: an earlier version of the policy sampled */
};

struct mf_ppo_stats mf_ppo_stats_none(void); /* of no minibatch: numbers are NaN, counts 0 */

/* One round. A minibatch whose gradient is not finite is skipped and counted; three in a row: MF_EMATH. */
int mf_ppo_update(struct mf_ppo *ppo, struct mf_rows *rows, struct mf_ppo_stats *stats, struct mf_err *err);

#endif
