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

/* Networks beside the policy, with their optimiser: what a resumed run needs and sampling does not. The names of their
 * parameters begin with MF_SIDE, their group is MF_GROUP_CRITIC. */
#define MF_SIDE "offline/"
struct mf_side {
    struct mf_params *params;
    struct mf_adam *adam; /* with an average of all of them */
};

struct mf_checkpoint {
    struct mf_policy *policy;
    const float *ema;               /* as params.value, or as the moments; NULL: none */
    bool leaves;                    /* what the policy uses from another file is left there (base.h), which is linked */
    const struct mf_origin *origin; /* the file with an outline's values; NULL: the policy has values */
    bool origin_ema;                /* origin has "ema/NAME", too */
    /* Is this parameter to be written as bf16? `self` is the origin's, which then reads bf16. NULL: none is. */
    bool (*bf16)(const void *self, const struct mf_param *p);
    const struct mf_adam *adam; /* or NULL */
    const struct mf_side *side; /* or NULL */
    const char *kind;           /* "clone" or "ppo" */
    const double *before;       /* noise of the version before, whose rounds may still come; NULL: none will */
    int n_states;               /* opaque states of the collectors */
    const struct mf_state {
        char src[64];
        const void *bytes;
        size_t size;
    } * states;
    int n_extra; /* further "key" -> decimal text that the learner needs (counters, seed) */
    const char *(*extra)[2];
};
/* NAME.part, fsync, rename. Of several ranks that step `adam` all call it; rank 0 collects and writes. */
int mf_checkpoint_save(const char *path, const struct mf_checkpoint *c, struct mf_err *err);
double mf_checkpoint_bytes(const struct mf_checkpoint *c); /* of its tensors */

/* A checkpoint's n tensors without those that only training needs. average: the EMA replaces the weights; NULL if there
 * is none. The tensors borrow from f; free() the list. */
struct mf_array *mf_weights_alone(const struct mf_safetensors *f, bool average, int *n);

enum mf_weights { MF_WEIGHTS_AUTO, MF_WEIGHTS_RAW, MF_WEIGHTS_EMA }; /* auto: EMA of a clone, raw of PPO */
struct mf_loaded;                                                    /* an open checkpoint */
int mf_checkpoint_open(struct mf_loaded **l, const char *path, struct mf_err *err);
void mf_checkpoint_close(struct mf_loaded *l);
const char *mf_loaded_path(const struct mf_loaded *l);
/* The file that has its frozen parameters, itself or its base (base.h), and that file's digest. */
void mf_loaded_base(const struct mf_loaded *l, char *path, size_t size, char hex[17]);
const struct mf_policy_spec *mf_loaded_spec(const struct mf_loaded *l);
const char *mf_loaded_kind(const struct mf_loaded *l);
const char *mf_loaded_extra(const struct mf_loaded *l, const char *key); /* NULL: none */
/* *v: the count of that name among the extras; 0: there is none. */
int mf_loaded_count(const struct mf_loaded *l, const char *key, int64_t *v, struct mf_err *err);
const struct mf_safetensors *mf_loaded_file(const struct mf_loaded *l); /* the raw tensors and metadata */
int mf_loaded_states(const struct mf_loaded *l, const struct mf_state **states);
/* Copies weights, normaliser and counters into an initialised policy of the same spec. The error names tensors that are
 * missing, left over or misshapen. A checkpoint without normaliser is an error. In a clone, critic.* may be missing:
 * the policy keeps its own. A policy without a critic, a noise network or a latent actor leaves that of the file. */
int mf_loaded_policy(const struct mf_loaded *l, struct mf_policy *p, enum mf_weights which, struct mf_err *err);
/* An outline of a policy with frozen groups, for mf_params_alloc and mf_loaded_policy; l NULL: for fresh weights.
 * in_place: frozen matrices that the file has as bf16 are used where they are, in its mapped file, for devices that
 * compute in the host's memory. p->frozen becomes the digest of the frozen parameters in the file: of
 * their names and first and last numbers, whatever their type. */
int mf_loaded_outline(const struct mf_loaded *l, struct mf_policy *p, const struct mf_policy_spec *spec,
                      unsigned frozen, bool in_place, enum mf_weights which, struct mf_err *err);
/* Does mf_loaded_policy load the EMA? */
bool mf_loaded_uses_ema(const struct mf_loaded *l, const struct mf_params *ps, enum mf_weights which);
/* Of a resumable checkpoint: Adam's moments and step counts; the EMA (raw weights where none is kept). Of several ranks
 * each checks all and copies its segment. */
int mf_loaded_adam(const struct mf_loaded *l, const struct mf_params *ps, struct mf_adam *a, struct mf_err *err);
int mf_loaded_ema(const struct mf_loaded *l, const struct mf_params *ps, struct mf_adam *a, struct mf_err *err);
int mf_loaded_side(const struct mf_loaded *l, const struct mf_side *s, struct mf_err *err);

#endif
