/* checkpoint.h - a policy in a file: one safetensors file of weights, normaliser, optimiser moments, counters and
 * collectors' states. It holds only what determines the numbers: no paths, times, hosts, thread counts.
 */
#ifndef MF_FLOW_CHECKPOINT_H
#define MF_FLOW_CHECKPOINT_H

#include "flow/policy.h"
#include "graph/plan.h"

struct mf_array;
struct mf_origin;
struct mf_safetensors;

struct mf_checkpoint {
    struct mf_policy *policy;
    const float *ema;               /* as params.value, or NULL */
    const struct mf_origin *origin; /* of the numbers of a policy that is an outline; NULL: of none */
    bool origin_ema;                /* it has "ema/NAME", too */
    const struct mf_adam *adam;     /* or NULL */
    const char *kind;               /* "clone" or "ppo" */
    int n_states;                   /* collectors' states, unread */
    const struct mf_state {
        char src[64];
        const void *bytes;
        size_t size;
    } * states;
    int n_extra; /* further "key" -> decimal text that the learner needs (counters, seed) */
    const char *(*extra)[2];
};
int mf_checkpoint_save(const char *path, const struct mf_checkpoint *c,
                       struct mf_err *err); /* NAME.part, fsync, rename */

/* A checkpoint's n tensors without those that only training needs; average: the EMA in the place of the weights, NULL
 * where there is none. They borrow from f; free() gives back the list. */
struct mf_array *mf_weights_alone(const struct mf_safetensors *f, bool average, int *n);

enum mf_weights { MF_WEIGHTS_AUTO, MF_WEIGHTS_RAW, MF_WEIGHTS_EMA }; /* auto: EMA of a clone, raw of PPO */
struct mf_loaded;                                                    /* an open checkpoint */
int mf_checkpoint_open(struct mf_loaded **l, const char *path, struct mf_err *err);
void mf_checkpoint_close(struct mf_loaded *l);
const char *mf_loaded_path(const struct mf_loaded *l);
const struct mf_policy_spec *mf_loaded_spec(const struct mf_loaded *l);
const char *mf_loaded_kind(const struct mf_loaded *l);
const char *mf_loaded_extra(const struct mf_loaded *l, const char *key); /* NULL: none */
/* A count among them; 0 where there is none. */
int mf_loaded_count(const struct mf_loaded *l, const char *key, int64_t *v, struct mf_err *err);
const struct mf_safetensors *mf_loaded_file(const struct mf_loaded *l); /* the raw tensors and metadata */
int mf_loaded_states(const struct mf_loaded *l, const struct mf_state **states);
/* Copies weights, normaliser, counters into an initialised policy whose spec agrees; a tensor that is missing, left
 * over or misshapen is named. A policy without normaliser is refused. critic.* may be missing in a clone (kept fresh).
 */
int mf_loaded_policy(const struct mf_loaded *l, struct mf_policy *p, enum mf_weights which, struct mf_err *err);
/* Does that take the EMA? */
bool mf_loaded_uses_ema(const struct mf_loaded *l, const struct mf_params *ps, enum mf_weights which);
/* Of a resumable checkpoint: Adam's moments and steps; the EMA (of the averaged weights; the others raw). */
int mf_loaded_adam(const struct mf_loaded *l, const struct mf_params *ps, struct mf_adam *a, struct mf_err *err);
int mf_loaded_ema(const struct mf_loaded *l, const struct mf_params *ps, float *ema, struct mf_err *err);

#endif
