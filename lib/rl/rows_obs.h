/* rows_obs.h - the observations of a round's rows. Where ranks share them out (stream/rollout.h), each has those of its
 * share alone, and before each minibatch gets those of the rows that it computes from the ranks that have them.
 */
#ifndef MF_RL_ROWS_OBS_H
#define MF_RL_ROWS_OBS_H

#include "graph/plan.h"
#include "ranks/ranks.h"
#include "rl/rows.h"

/* r->ranks, and r->n_own, for how many there is room, are set. */
void mf_rows_place_obs(struct mf_rows *r, struct mf_arena *a);
/* That of decision `at` of the rollout f, which q binds, to row `row`; rows come in ascending order. Of a row of
 * another rank it only notes which one has it. MF_EFORMAT: it is not that of the policy. */
int mf_rows_copy_obs(struct mf_rows *r, const struct mf_frame *f, const struct mf_rollout *q, const struct mf_policy *p,
                     size_t row, size_t at, struct mf_err *err);
/* Of the live rows: those whose observations are here, and r->obs has them by `live` or, where ranks share them out, in
 * this order. */
const uint32_t *mf_rows_here(const struct mf_rows *r, size_t *n);

struct mf_batch_obs { /* zeroed: none */
    float *obs;       /* (most, O) of the rows of a minibatch; what other ranks compute is never touched */
    size_t bytes;
    int *by; /* (most) the rank that computes a row */
    struct mf_ranks_move *move;
};

/* For minibatches of at most so many rows; of rows that are not shared out it stays empty. */
int mf_batch_obs_open(struct mf_batch_obs *b, const struct mf_rows *r, size_t most, struct mf_err *err);
void mf_batch_obs_close(struct mf_batch_obs *b);
/* Of the n rows, in ascending order, those that this rank computes in the plan. */
int mf_batch_obs_bring(struct mf_batch_obs *b, struct mf_ranks *ranks, const struct mf_plan *plan,
                       const struct mf_rows *r, const uint32_t *row, size_t n, struct mf_err *err);

#endif
