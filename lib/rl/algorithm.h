/* algorithm.h - a way to learn from rounds, and the kind of its checkpoints: PPO (algorithm_ppo.c), SAC
 * (algorithm_sac.c). The trainer has everything else: the policy, its noise, the collectors' states.
 */
#ifndef MF_RL_ALGORITHM_H
#define MF_RL_ALGORITHM_H

#include "flow/checkpoint.h"
#include "rl/trainer.h"

struct mf_algorithm {
    const char *name; /* of its program, without "mf-", and of its checkpoints' kind */
    /* Sets t->learner, which borrows engine and policy; also of an outline. MF_EUSAGE: the policy is not for it. */
    int (*open)(struct mf_trainer *t, const struct mf_trainer_opts *o, struct mf_err *err);
    void (*close)(struct mf_trainer *t); /* a learner may be missing */
    int (*memory)(struct mf_trainer *t, const struct mf_trainer_opts *o, size_t n, struct mf_memory *to,
                  struct mf_err *err);
    unsigned (*needs)(const struct mf_trainer *t); /* enum mf_rows_extra of its rows; NULL: none */
    int (*update)(struct mf_trainer *t, struct mf_rows *rows, struct mf_ppo_stats *stats, struct mf_err *err);
    void (*report)(const struct mf_trainer *t, struct mf_frame *metrics); /* adds values of its own; NULL: none */
    /* The policy has the checkpoint's weights. resumes: as the run that saved it, else as a new one. */
    int (*load)(struct mf_trainer *t, const struct mf_loaded *l, bool resumes, struct mf_err *err);
    /* Adds its moments and averages to the checkpoint; NULL: it has none there. */
    void (*moments)(const struct mf_trainer *t, struct mf_checkpoint *c);
    /* Writes what the checkpoint of a later version needs of this round; path: as of a checkpoint of this version.
     * NULL: nothing. */
    int (*keep)(struct mf_trainer *t, const char *path, struct mf_err *err);
    /* Adds the learner's own state to the checkpoint, and writes it. */
    int (*save)(struct mf_trainer *t, const char *path, struct mf_checkpoint *c, struct mf_err *err);
};

#endif
