/* rollout.h - a rollout frame as typed pointers whose shapes were checked once.
 *
 *   T decision steps  N environments  C executed actions  A action dim
 *   H horizon         K denoising steps
 */
#ifndef MF_STREAM_ROLLOUT_H
#define MF_STREAM_ROLLOUT_H

#include <string.h>

#include "stream/frame.h"

static inline bool mf_is_observation(const struct mf_array *a)
{
    return !strncmp(a->name, "obs/", 4);
}

/* Ranks may share out the observations of a rollout's T*N decisions, which are counted as t*N + n: those of share k of
 * `of` begin at mf_share_first. Every other array is whole in each of them, and an observation's is (1, decisions, ..).
 */
static inline size_t mf_share_first(size_t decisions, int k, int of)
{
    return decisions * (size_t)k / (size_t)of;
}
/* The share that has decision i. */
static inline int mf_share_of(size_t decisions, size_t i, int of)
{
    return (int)(((i + 1) * (size_t)of - 1) / decisions);
}
/* Bytes of a decision's observations, from which ranks share them out: below a page the numbers beside them are more.
 */
enum { MF_SHARED_BYTES = 4096 };

/* Which arrays must be there. */
enum mf_need {
    MF_NEED_VALUES = 1 << 0, /* prev_values, last_values; final_values where anything is truncated and not terminated */
    MF_NEED_CHAINS = 1 << 1, /* chains, denoise_inds, prev_logprobs, obs/..., actions */
    MF_NEED_ADVANTAGES = 1 << 2, /* advantages, returns */
    MF_NEED_GROUPS = 1 << 3,     /* group */
    MF_NEED_SUCCESS = 1 << 4,    /* success */
    MF_NEED_SAMPLES = 1 << 5,    /* samples, obs/..., actions; with advantages prev_logprobs, too */
};

struct mf_rollout {
    size_t T, N, C, A, H, K, W; /* W: numbers of an action in the network, of which A are the first */
    int64_t iter, slice, slices, first_env;
    const float *rewards;                  /* (T, N, C) */
    const float *rewards_scaled;           /* (T, N), or NULL */
    const uint8_t *terminated, *truncated; /* (T, N) */
    const uint8_t *valid, *loss_mask;      /* (T, N), or NULL: all */
    const int32_t *n_exec;                 /* (T, N), or NULL: C everywhere */
    const float *prev_values;              /* (T, N), or NULL unless needed; so for what follows */
    const float *last_values;              /* (N) */
    const float *final_values;             /* (T, N) */
    const float *actions;                  /* (T, N, C, A) */
    const float *chains;                   /* (T, N, K+1, H, W) */
    const int32_t *denoise_inds;           /* (T, N, K) */
    const float *samples;                  /* (T, N, H, W) */
    const uint64_t *draws;                 /* (T, N), or NULL */
    const struct mf_array *prev_logprobs;  /* by objective */
    const int32_t *group;                  /* (T, N) episodes of one number start from the same state */
    const uint8_t *success;                /* (T, N) 1 where an episode ends that had a success */
    const uint64_t *begins, *ends;         /* (N), or NULL: hashes of the inputs before the first and after the last
                                            * decision; where ends is a later rollout's begins, that one goes on there */
    const float *advantages, *returns;     /* (T, N) */
    int share, shares;                     /* the share of the observations that is here; of 1: all */
    size_t first, end;                     /* whose decisions these are */
    bool normalized;                       /* the frame says its advantages are already normalised */
};

/* Borrow f's arrays. MF_EFORMAT names the array that is missing, of another
 * dtype or shape, or NaN where it is not masked (with its index). */
int mf_rollout_bind(struct mf_rollout *r, const struct mf_frame *f, unsigned need, struct mf_err *err);

#endif
