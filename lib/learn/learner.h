/* learner.h - a program that learns from rounds of rollouts and serves the policy: mf-ppo, mf-sac. A stage is its
 * algorithm (rl/algorithm.h), its keys, and these functions.
 *
 * It waits for a complete round of all sources, orders its rows, updates, saves, publishes. A version counts consumed
 * rounds, also those dropped or without an update step, since a collector waits for exactly that version.
 */
#ifndef MF_LEARN_LEARNER_H
#define MF_LEARN_LEARNER_H

#include "base/err.h"
#include "conf/conf.h"
#include "flow/spec_keys.h"
#include "learn/missing.h"
#include "learn/saves.h"
#include "rl/algorithm.h"
#include "rl/ppo_keys.h"
#include "rl/rounds.h"
#include "rl/trainer.h"
#include "stage/journal.h"
#include "stage/stage.h"
#include "stage/workdir.h"
#include "wire/edge.h"

struct mf_learner {
    const char *checkpoint, *address;
    int64_t sources, required, log_interval, num_envs, steps;
    struct mf_saves saves;
    int weights;
    struct mf_rundir_opts run;
    bool progress;
    struct mf_trainer_opts opts; /* opts.algorithm: set before the first frame */

    struct mf_workdir work;
    struct mf_trainer trainer;
    struct mf_edge_server *edge;
    struct mf_journal *journal;
    struct mf_frame *head;    /* as received: provenance */
    struct mf_frame *metrics; /* of the current version; NULL: none yet */
    struct {
        const char *env, *checkpoint;
    } from; /* from the head; NULL: none */
    struct mf_rounds *rounds;
    struct mf_missing missing;
    double begun; /* start of training, shifted by all interruptions */
    double waited_since, worked_until, shown_at;
};

extern const struct mf_bind mf_learner_binds[]; /* of struct mf_learner itself */

/* The tables of every learner; then those of its algorithm. */
#define MF_LEARNER_TABLES                                                                                              \
    {mf_learner_binds, 0}, {mf_policy_binds, 0}, {mf_rundir_binds, offsetof(struct mf_learner, run)},                  \
    {                                                                                                                  \
        mf_trainer_binds, offsetof(struct mf_learner, opts)                                                            \
    }

/* Of struct mf_stage. */
int mf_learner_frame(struct mf_run *run, void *self, struct mf_frame *f, struct mf_err *err);
int mf_learner_ended(struct mf_run *run, void *self, const struct mf_frame *end, struct mf_err *err);
int mf_learner_close(struct mf_run *run, void *self, int rc, struct mf_err *err);

#endif
