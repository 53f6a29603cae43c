/* proximal.h - the proximal policy of an update whose rollouts come from an older policy.
 *
 * PPO's old policy has two roles: it samples (behaviour policy, b), and the clip keeps the new policy near it (proximal
 * policy, p). With rollouts of an older policy (collect.max_lag > 0) the two differ (Hilton, Cobbe, Schulman 2021,
 * "Batch size-invariance for policy optimization", eq. 1 of section 3):
 *
 *   L = mean p/b max(-A ratio, -A clip(ratio, 1-eps, 1+eps)),   ratio = new/p
 *
 * This is PPO where p = b. Here log p is interpolated by alpha, the key training.proximal:
 *
 *   log p = log b + alpha (log now - log b)         now: the weights at the round's start
 *
 * alpha = 1 centres the clip on the newest policy; alpha = 0 is PPO. Ratios and p/b have the granularity of the
 * objective: the whole chain, its mean, or a step at training.level.
 */
#ifndef MF_RL_PROXIMAL_H
#define MF_RL_PROXIMAL_H

#include "base/err.h"
#include "flow/policy.h"
#include "graph/plan.h"
#include "rl/ppo.h"

/* Where ranks share out observations, all call these together, and they fail with MF_EIO as well (ranks/ranks.h). */

/* Replaces the rows' old log-probabilities by those of the current weights, for rollouts from another device. */
int mf_recompute(struct mf_engine *e, struct mf_policy *p, struct mf_rows *r, struct mf_err *err);

/* Replaces them by those of the proximal policy, and sets the rows' `correction` to p/b, `width` ratios a row. Sets in
 * st logratio_gap, the largest |log now - log b| of a ratio, and correction_max. Where now = b, no bit changes and p/b
 * is 1. */
int mf_proximal(struct mf_engine *e, struct mf_policy *p, struct mf_rows *r, const struct mf_ppo_opts *o, int width,
                struct mf_ppo_stats *st, struct mf_err *err);

/* Adds the estimated memory of either for a round of n decisions. The policy may be an outline. */
int mf_proximal_memory(struct mf_engine *e, struct mf_policy *p, size_t n, struct mf_memory *to, struct mf_err *err);

#endif
