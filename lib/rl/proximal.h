/* proximal.h - the policy that an update stays near, where it is not the one that sampled.
 *
 * PPO's old policy has two parts to play: samples are drawn from it (behaviour, b), and the clip keeps the new one near
 * it (proximal, p). Rollouts of an older policy, collect.max_lag > 0, take them apart (Hilton, Cobbe, Schulman 2021,
 * "Batch size-invariance for policy optimization", eq. 1 of section 3):
 *
 *   L = mean p/b max(-A ratio, -A clip(ratio, 1-eps, 1+eps)),   ratio = new/p
 *
 * which is PPO where p = b. Here p is interpolated by alpha, training.proximal, in log-probabilities
 *
 *   log p = log b + alpha (log now - log b)         now: the weights at the round's start
 *
 * so that 1 centres the clip on the newest policy and 0 is PPO. A ratio, and with it p/b, is one of the objective's
 * units: of the whole chain, its mean, or a step at training.level.
 */
#ifndef MF_RL_PROXIMAL_H
#define MF_RL_PROXIMAL_H

#include "base/err.h"
#include "flow/policy.h"
#include "graph/plan.h"
#include "rl/ppo.h"

/* Rows' old log-probabilities become those of the weights that stand now, for rollouts from another device. */
int mf_recompute(struct mf_engine *e, struct mf_policy *p, struct mf_rows *r, struct mf_err *err);

/* They become the proximal policy's, and rows' `correction` p/b of `width` ratios a row. Into st: logratio_gap,
 * the largest |log now - log b| of a ratio, and correction_max. Where now is b, no bit changes and p/b is 1. */
int mf_proximal(struct mf_engine *e, struct mf_policy *p, struct mf_rows *r, const struct mf_ppo_opts *o, int width,
                struct mf_ppo_stats *st, struct mf_err *err);

/* What either takes for a round of n decisions, added; of a policy that is an outline nothing is allocated. */
int mf_proximal_memory(struct mf_engine *e, struct mf_policy *p, size_t n, struct mf_memory *to, struct mf_err *err);

#endif
