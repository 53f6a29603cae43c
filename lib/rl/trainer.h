/* trainer.h - what a run of PPO carries from round to round: policy, learner, the noise in force, the collectors'
 * states; and its checkpoints.
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
#include "rl/staleness.h"

struct mf_noise_opts { /* the noise keys of conf/policy.inc */
#define NOISE(key, member, type, ...) MF_VALUE_##type(member)
#include "conf/policy.inc"
};

struct mf_trainer_opts {
    const char *device;
    int64_t threads;
    int precision; /* enum mf_precision */
    struct mf_ppo_opts ppo;
    struct mf_noise_opts noise;
    int64_t max_lag;     /* as in staleness.h */
    bool freeze_encoder; /* the observation's encoder is not trained */
    bool encoded;        /* rollouts carry what it made of the observations (mf_net_encoded) */
};

enum { MF_TRAINER_PAST = 64 };

struct mf_trainer {
    struct mf_engine *engine;
    struct mf_policy policy;
    struct mf_ppo *learner;
    struct mf_noise_opts noise;
    struct mf_state *states; /* of the collectors at the end of their last rounds, unread; one a name */
    int n_states;
    double level[MF_TRAINER_PAST]; /* noise in force for version v: level[v % PAST] */
    char digest[17];               /* of the policy at hand */
    char start[17];                /* digest of the policy that the run began with; "": not known */
    struct mf_staleness stale;     /* of the rounds so far */
    bool from_ema;                 /* the averaged weights of a checkpoint were loaded */
};

/* A fresh policy of this spec and its learner. */
int mf_trainer_open(struct mf_trainer *t, const struct mf_policy_spec *spec, const struct mf_trainer_opts *opts,
                    struct mf_err *err);
/* What that will take for rounds of n decisions, and to serve so many versions; added, and nothing of it is allocated.
 */
int mf_trainer_memory(const struct mf_policy_spec *spec, const struct mf_trainer_opts *opts, size_t n, int served,
                      struct mf_memory *to, struct mf_err *err);
void mf_trainer_release(struct mf_trainer *t); /* safe on a zeroed one */

/* Resumes: everything goes on. Else the checkpoint is a start: weights (as `which` says) and normaliser alone. */
int mf_trainer_load(struct mf_trainer *t, const char *path, bool resumes, enum mf_weights which, struct mf_err *err);
/* MF_EUSAGE where the run in RUN, whose newest checkpoint is `newest`, did not begin with the one that `named` (a file
 * or a run) has, as far as that is known. `was` is what it was called, NULL: not known; what a folder holds may have
 * changed since, so its name is enough. To be asked before all is loaded: t's policy is that of `named` then. */
int mf_trainer_began(struct mf_trainer *t, const char *run, const char *newest, const char *named, const char *was,
                     enum mf_weights which, struct mf_err *err);
int mf_trainer_save(const struct mf_trainer *t, const char *path, struct mf_err *err);

/* Learn from what is fresh of a round's n parts, each sampled by the version that it names; *steps are its control
 * steps. Nothing of it is: 0, no steps, and what has no value is NaN. */
int mf_trainer_learn(struct mf_trainer *t, const struct mf_round_part *parts, int n, struct mf_ppo_stats *stats,
                     struct mf_health *health, int64_t *steps, struct mf_err *err);
/* When that failed: the first part that is wrong by itself, with its own reason in *err; -1: none is. T: decisions of a
 * slice, 0: any number. */
int mf_trainer_culprit(const struct mf_trainer *t, const struct mf_round_part *parts, int n, size_t T,
                       struct mf_err *err);
/* The round is consumed: the next version, its noise, and the states that came with the parts. */
int mf_trainer_next(struct mf_trainer *t, const struct mf_round_part *parts, int n, int64_t steps, struct mf_err *err);

#endif
