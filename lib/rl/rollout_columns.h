/* rollout_columns.h - names, types and shapes of the arrays of a rollout. */
#ifndef MF_RL_ROLLOUT_COLUMNS_H
#define MF_RL_ROLLOUT_COLUMNS_H

#include "base/layout.h"
#include "flow/spec.h"
#include "stream/columns.h"

struct mf_rollout_ids { /* indices of the columns */
    int obs[MF_OBS_KEYS], actions, rewards, terminated, truncated, valid, success, n_exec;
    int loss_mask, values, last_values, final_values, logprobs; /* of a policy */
    int chains, inds;                                           /* whose steps are scored */
    int samples, draws;                                         /* of others; draws: FPO's */
    int begins, ends;                                           /* of policy.steer=sac */
    int group, scaled;
    int task; /* of environments with language */
};

/* Adds the arrays of a rollout of this policy, or of the expert (NULL) with action dim A; obs: the observations that
 * the rollout carries. Values are those of a policy with a critic. */
void mf_rollout_columns(struct mf_columns *c, struct mf_rollout_ids *id, const struct mf_policy_spec *policy,
                        const struct mf_layout *obs, int A, bool scaled, bool grouped, bool tasks);
/* Bytes of T decisions of one environment with this policy, with the observations spec.net.obs; with_advantages: and
 * with the two arrays that mf-gae adds. */
size_t mf_rollout_bytes(const struct mf_policy_spec *policy, size_t T, bool with_advantages);
size_t mf_rollout_obs_bytes(const struct mf_policy_spec *policy); /* of one decision's observations */

#endif
