/* group.h - advantages relative to a group: of episodes that start from the same state.
 *
 *   group          A = (s - mean) / (std + 1e-6), std unbiased      (GRPO, Shao et al. 2024; as RLinf)
 *   leave_one_out  A = s - mean of the others                       (RLOO, Ahmadian et al. 2024)
 *
 * s, the score, is the episode's undiscounted return, or 1 for a success and 0 for a failure. Every decision of the
 * episode gets A, and s as its return: no value function is needed. Means are in double, in the order of environments.
 *
 * A group is whole if all its episodes have ended within the rollout, `size` or more of them. Only a whole group is
 * compared: without the episodes that the rollout cuts, the short ones would be preferred. Decisions of other episodes
 * get loss_mask 0. Equal scores, or a single one, give exactly 0.
 */
#ifndef MF_RL_GROUP_H
#define MF_RL_GROUP_H

#include "base/err.h"
#include "conf/conf.h"
#include "stream/rollout.h"

enum mf_group_reward { MF_GROUP_RETURN, MF_GROUP_SUCCESS }; /* the order of the keys' words */
enum mf_group_baseline { MF_BASELINE_GROUP, MF_BASELINE_OTHERS };

struct mf_group_opts {
    int reward, baseline; /* the enums above */
};

extern const struct mf_bind mf_group_binds[];

struct mf_group_counts {           /* added up over rollouts */
    int64_t groups, single, equal; /* whole groups; those of one episode; those of several with equal scores */
    int64_t cut;                   /* groups that are not whole */
    int64_t decisions, masked;     /* unmasked decisions before; those that get loss_mask 0 */
};

/* size: members of a whole group at least. advantages and returns (T, N), 0 where masked; mask (T, N): the rollout's,
 * or 1, less the decisions of groups that are not whole. r has group and, for MF_GROUP_SUCCESS, success. */
int mf_group_advantage(const struct mf_group_opts *o, const struct mf_rollout *r, size_t size, float *advantages,
                       float *returns, uint8_t *mask, struct mf_group_counts *counts, struct mf_err *err);

/* Adds advantages, returns and loss_mask to a rollout frame; with the group's baseline also normalized=true. */
int mf_group_add(const struct mf_group_opts *o, struct mf_frame *f, struct mf_group_counts *counts, struct mf_err *err);

#endif
