/* rows.h - a complete round as rows, one per decision, ready for minibatches.
 *
 * Rows are ordered by (source, environment, step), whatever the slices and
 * their order of arrival: results do not depend on how the round was sent.
 *
 *   n = N*T rows   O flat observation, as spec.net.obs: raw or encoded   D = H*A   E elements of a log-probability
 *   P chain points and k denoising steps a row: (K+1, K) joint, (2, 1) single; of FPO (1, M), the sample and its draws;
 * steered (1, 0), the initial noise
 */
#ifndef MF_RL_ROWS_H
#define MF_RL_ROWS_H

#include "base/err.h"
#include "base/mem.h"
#include "stream/rollout.h"
#include "flow/policy.h"
#include "dev/device.h"
#include "flow/score.h"

enum mf_rows_extra { MF_ROWS_ENDS = 1 << 0, MF_ROWS_SUCCESS = 1 << 1 }; /* what only some losses read */
enum mf_row_success {
    MF_ROW_SUCCEEDS = 1 << 0, /* the row's episode ends with a success within the round */
    MF_ROW_ENDS_SO = 1 << 1,  /* by a termination in this row */
};

struct mf_rows {
    size_t n, n_live;
    size_t T, N;
    int O, D, P, k, C, E, X; /* X: C * action_dim */
    bool single, fpo;        /* one drawn denoising step a row; FPO's draws */
    bool judged;             /* policy.steer=sac: `action` and `end`, no advantages and log-probabilities */
    unsigned extra;          /* enum mf_rows_extra */
    uint32_t *live;          /* (n_live) rows that enter the losses */
    int rank, ranks;         /* this one, of those that share out the observations; ranks 0: all are here */
    uint16_t *home;          /* (n) the rank that has the observation of a live row; else NULL */
    uint32_t *own;           /* (n_own) the live rows of which it is this one; else NULL */
    size_t n_own;
    float *obs;              /* (n, O) normalised; of rows that ranks share out (n_own, O), see rows_obs.h */
    float *chain;            /* (n, P, D) */
    float *ends;             /* (n, 2, D) MF_ROWS_ENDS of single rows: first and last point of the chain; or NULL */
    uint8_t *success;        /* (n) MF_ROWS_SUCCESS: enum mf_row_success; or NULL */
    float *coef;             /* (n, k, 3); NULL: k is 0 */
    float *noise;            /* (n, k, D): of FPO's draws; else NULL */
    float *time;             /* (n): of the drawn step; single. (n, k): of FPO's draws. Else NULL */
    float *old;              /* (n, E) log-probabilities at rollout */
    float *correction;       /* (n, ratios) proximal.h's p/b, malloc'ed; NULL: all are 1 */
    float *advantage;        /* (n) */
    float *returns, *values; /* (n) values: 0 without a critic. Of policy.steer=sac the sum of the executed rewards */
    float *action;           /* (n, X) executed, normalised; of policy.steer=sac, else NULL */
    uint8_t *end;            /* (n) the episode ended; the same */
    uint64_t *seen_first, *seen_last; /* (N) struct mf_rollout's begins and ends, 0: unknown; the same */
    int32_t *n_exec;                  /* (n) executed control steps */
    float *share;                     /* (n) T / live steps of the row's environment */
    int64_t control_steps;            /* of the valid rows */
    bool normalized;                  /* the frames have normalised advantages */
    bool lagged;                      /* an earlier version of the policy sampled some of them */
    struct mf_arena arena;
};

/* Gathers the slices of one round, with the extras. noise[i]: the noise that slice i was sampled with (flow_noise's
 * sigma, or the level of sde and cps). MF_EFORMAT where slices are incompatible with each other or with the policy. */
int mf_rows_gather(struct mf_rows *r, const struct mf_policy *p, unsigned extra, const double *noise,
                   struct mf_frame *const *slices, size_t n_slices, struct mf_err *err);
/* The checks of gather alone, for slices of T decisions each (0: any number). */
int mf_rows_check(const struct mf_policy *p, unsigned extra, size_t T, struct mf_frame *const *slices, size_t n_slices,
                  struct mf_err *err);
/* What a graph reads of each row to score it: at most MF_ROW_FEEDS feeds of the score's inputs by the rows' indices.
 * The first is the observation; where ranks share these out, `direct` in the order of r->own. Returns their number. */
enum { MF_ROW_FEEDS = 5 };
int mf_rows_feed(const struct mf_rows *r, const struct mf_score *s, struct mf_feed feed[MF_ROW_FEEDS]);
/* Allocates the arrays of n rows, zeroed, for the dims that are set. */
int mf_rows_alloc(struct mf_rows *r, struct mf_err *err);
/* Estimated bytes of n decisions, in one of so many ranks: in received frames, in aligned copies, and as rows. */
size_t mf_rows_memory(const struct mf_policy_spec *s, unsigned extra, size_t n, int ranks);
size_t mf_rows_floats(const struct mf_policy_spec *s, int ranks); /* of one row, in the arrays that are fed by row */
/* Do so many ranks share out the observations of this policy? */
bool mf_rows_shares(const struct mf_policy_spec *s, int ranks);
/* The first and the last point (D) of a row's chain, of joint rows or with MF_ROWS_ENDS. */
const float *mf_rows_first(const struct mf_rows *r, size_t row);
const float *mf_rows_last(const struct mf_rows *r, size_t row);
void mf_rows_release(struct mf_rows *r); /* safe on a zeroed one */

#endif
