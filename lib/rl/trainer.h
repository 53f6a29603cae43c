/* trainer.h - the state of a run: policy, learner, current noise, collectors' states; and its checkpoints.
 */
#ifndef MF_RL_TRAINER_H
#define MF_RL_TRAINER_H

#include "base/err.h"
#include "conf/conf.h"
#include "dev/device.h"
#include "flow/checkpoint.h"
#include "graph/plan.h"
#include "rl/health.h"
#include "rl/ppo.h"
#include "rl/sac.h"
#include "rl/staleness.h"

struct mf_algorithm;
extern const struct mf_algorithm mf_algorithm_ppo, mf_algorithm_sac;

struct mf_noise_opts { /* the noise keys of conf/policy.inc */
#define NOISE(key, member, type, ...) MF_VALUE_##type(member)
#include "conf/policy.inc"
};

struct mf_trainer_opts {
    const char *device;
    int64_t threads, lanes;
    int precision; /* enum mf_precision */
    const struct mf_algorithm *algorithm;
    struct mf_ppo_opts ppo; /* its seed is that of every algorithm */
    struct mf_sac_opts sac;
    struct mf_noise_opts noise;
    int64_t max_lag;        /* as in staleness.h */
    int64_t save_every;     /* versions between checkpoints */
    bool freeze_encoder;    /* the observation's encoder is not trained */
    bool save_frozen;       /* in checkpoints, also where it stays in the file of another */
    const char *from;       /* the checkpoint that is loaded next, in whose file frozen bf16 stays; NULL: none */
    enum mf_weights which;  /* of it */
    const char *frozen;     /* digest of the frozen parameters that collectors have (policy.h); NULL: none */
    bool encoded;           /* rollouts carry encodings (mf_net_encoded) */
    struct mf_ranks *ranks; /* that divide minibatches; NULL: alone */
};

enum { MF_TRAINER_PAST = 64 };

struct mf_trainer {
    struct mf_engine *engine;
    struct mf_policy policy;
    const struct mf_algorithm *algorithm;
    void *learner; /* the algorithm's */
    struct mf_noise_opts noise;
    struct mf_state *states; /* opaque states of the collectors after their last rounds, one per name */
    int n_states;
    double level[MF_TRAINER_PAST]; /* noise of version v: level[v % PAST] */
    char digest[17];               /* of the current policy */
    char start[17];                /* digest of the policy that the run started from; "": unknown */
    struct mf_staleness stale;     /* of the rounds so far */
    int64_t known;                 /* first version whose noise is known */
    bool torn;                     /* within a round: there is no state to save */
    bool leaves;                   /* as in struct mf_checkpoint */
    bool spares;                   /* collectors have the frozen parameters, and get the others */
    bool from_ema;                 /* the EMA weights of a checkpoint were loaded */
};

/* A fresh policy of this spec and its learner. */
int mf_trainer_open(struct mf_trainer *t, const struct mf_policy_spec *spec, const struct mf_trainer_opts *opts,
                    struct mf_err *err);
/* Adds the estimated memory of such a trainer for rounds of n decisions and for `served` versions of the policy in
 * memory. Allocates none of it. */
int mf_trainer_memory(const struct mf_policy_spec *spec, const struct mf_trainer_opts *opts, size_t n, int served,
                      struct mf_memory *to, struct mf_err *err);
void mf_trainer_release(struct mf_trainer *t); /* safe on a zeroed one */

/* resumes: loads the whole state. Otherwise the checkpoint is a start: weights, selected by `which`, and normaliser
 * alone. */
int mf_trainer_load(struct mf_trainer *t, const char *path, bool resumes, enum mf_weights which, struct mf_err *err);
/* MF_EUSAGE where the run `run`, whose newest checkpoint is `newest`, did not start from the checkpoint `named` (a file
 * or a run), as far as that is known. `was`: the name that the run recorded, NULL: unknown; an equal name is enough, as
 * a folder's contents may have changed since. Call it before mf_trainer_load: it may load the policy of `named` into t.
 */
int mf_trainer_began(struct mf_trainer *t, const char *run, const char *newest, const char *named, const char *was,
                     enum mf_weights which, struct mf_err *err);
/* Afterwards the current version is the one saved. */
int mf_trainer_save(struct mf_trainer *t, const char *path, struct mf_err *err);
/* Of a version without a checkpoint, what a later one needs; path: as of a checkpoint of this version. */
int mf_trainer_keep(struct mf_trainer *t, const char *path, struct mf_err *err);
double mf_trainer_checkpoint_bytes(const struct mf_trainer *t); /* estimated */

/* Learns from those of a round's n parts that are not too old; *steps: their control steps. If all are too old: 0, no
 * steps, and NaN where statistics have no value. */
int mf_trainer_learn(struct mf_trainer *t, const struct mf_round_part *parts, int n, struct mf_ppo_stats *stats,
                     struct mf_health *health, int64_t *steps, struct mf_err *err);
/* After mf_trainer_learn failed: the index of the first part that is invalid by itself, with the reason in *err; -1:
 * none. T: decisions of a slice, 0: any number. */
int mf_trainer_culprit(const struct mf_trainer *t, const struct mf_round_part *parts, int n, size_t T,
                       struct mf_err *err);
/* The round is consumed: sets the next version and its noise, and keeps the states in the parts. */
int mf_trainer_next(struct mf_trainer *t, const struct mf_round_part *parts, int n, int64_t steps, struct mf_err *err);

#endif
