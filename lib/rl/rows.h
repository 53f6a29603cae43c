/* rows.h - a whole round as rows, one per decision, ready for minibatches.
 *
 * Rows are ordered by (source, environment, step), whatever the slices were and
 * whoever came first, so that what is computed from them does not depend on
 * how the round travelled.
 *
 *   n = N*T rows   O flat observation, as spec.net.obs: raw or encoded   D = H*A   E elements of a log-probability
 *   P chain points and k denoising steps a row: (K+1, K) joint, (2, 1) single
 */
#ifndef MF_RL_ROWS_H
#define MF_RL_ROWS_H

#include "base/err.h"
#include "base/mem.h"
#include "stream/rollout.h"
#include "flow/policy.h"
#include "base/mem.h"
#include "stream/rollout.h"

struct mf_rows {
    size_t n, n_live;
    size_t T, N;
    int O, D, P, k, C, E;
    bool single;             /* one drawn denoising step a row */
    uint32_t *live;          /* (n_live) rows that the losses may see */
    float *obs;              /* (n, O) normalised */
    float *chain;            /* (n, P, D) */
    float *coef;             /* (n, k, 3) */
    float *time;             /* (n): of the drawn step; single only */
    float *old;              /* (n, E) log-probabilities at rollout */
    float *correction;       /* (n, ratios) proximal.h's p/b, malloc'ed; NULL: all are 1 */
    float *advantage;        /* (n) */
    float *returns, *values; /* (n) */
    int32_t *n_exec;         /* (n) executed control steps */
    float *share;            /* (n) T / live steps of the row's environment */
    int64_t control_steps;   /* of the valid rows */
    bool normalized;         /* advantages came normalised */
    bool lagged;             /* some were sampled by an earlier policy than the learner's */
    struct mf_arena arena;
};

/* Gather the slices of one round. noise[i]: the level in force when slice i was sampled (flow_noise's sigma, or the
 * level of sde and cps). MF_EFORMAT where slices do not fit together or do not fit the policy. */
int mf_rows_gather(struct mf_rows *r, const struct mf_policy *p, const double *noise, struct mf_frame *const *slices,
                   size_t n_slices, struct mf_err *err);
/* As gather: would these slices, of T decisions each (0: any number), fit together and fit the policy? */
int mf_rows_check(const struct mf_policy *p, size_t T, struct mf_frame *const *slices, size_t n_slices,
                  struct mf_err *err);
/* The arrays of n rows, by the dims that are set, zeroed. */
int mf_rows_alloc(struct mf_rows *r, struct mf_err *err);
/* Bytes that n decisions take: in the frames that they came in, as they came and aligned, and as rows. */
size_t mf_rows_memory(const struct mf_policy_spec *s, size_t n);
void mf_rows_release(struct mf_rows *r); /* safe on a zeroed one */

#endif
