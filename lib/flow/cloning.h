/* cloning.h - a run of behaviour cloning: dataset windows, policy, cloner and optimiser; and its checkpoint.
 */
#ifndef MF_FLOW_CLONING_H
#define MF_FLOW_CLONING_H

#include "conf/conf.h"
#include "dev/device.h"
#include "flow/cloner.h"
#include "flow/dataset.h"
#include "flow/optimizer.h"
#include "flow/weighing.h"

struct mf_loaded;

struct mf_cloning_opts {
    const char *device;
    int64_t threads, lanes, seed;
    int precision, loss, time_sampling; /* enum mf_precision, mf_clone_loss, mf_time_sampling */
    int loss_dims, augmentation;        /* enum mf_loss_dims, mf_augmentation */
    double dropout;                     /* of a transformer's self-attention */
    int64_t steps, batch_size, warmup;  /* minibatches; samples; minibatches of the linear warm-up */
    double learning_rate, weight_decay;
    double ema_decay, ema_power, ema_max; /* decay 0: by power, at most max */
    int64_t pad_before, pad_after, shift; /* as in dataset.h */
    int normalizer;                       /* enum mf_normalizer, with the floor and the actions of struct mf_fit */
    double range_floor;
    bool normalize_actions;
    bool freeze_encoder;    /* the observation's encoder is not trained */
    bool save_frozen;       /* in checkpoints, also where it stays in the file of policy.checkpoint */
    struct mf_ranks *ranks; /* that divide minibatches; NULL: alone */
};
extern const struct mf_bind mf_cloning_binds[]; /* its keys: clone.*, run.seed, device, .. */

struct mf_cloning {
    struct mf_cloning_opts opts;
    struct mf_engine *engine;
    struct mf_policy policy;
    struct mf_dataset windows;
    struct mf_cloner *cloner;
    struct mf_optimizer optimizer;
    const struct mf_weighing *weighing; /* borrowed, set after open; NULL: all samples weigh the same */
    float *obs, *actions, *weight;      /* (batch_size, O), (batch_size, D), (batch_size): a minibatch */
    int64_t read;                       /* its number, in advance; -1: none */
    char start[17];                     /* digest of the checkpoint's policy at the start; "": fresh weights */
    struct mf_arena arena;
};

/* Of a cloning that starts from a checkpoint, whose normaliser stays: MF_EUSAGE where a word would fit another one; the
 * record leaves these keys out, and those of files have no effect. */
int mf_cloning_inherits(const struct mf_conf *conf, struct mf_conf *record, struct mf_err *err);
/* The policy of a checkpoint with its normaliser, `which` of its weights, of which frozen bf16 stays in its file; start
 * NULL: a fresh policy of this spec, with a normaliser fitted to the demonstrations. Borrows the demonstrations;
 * progress as in struct mf_fit. */
int mf_cloning_open(struct mf_cloning *c, const struct mf_policy_spec *spec, const struct mf_loaded *start,
                    enum mf_weights which, struct mf_demos *d, const struct mf_cloning_opts *opts,
                    void (*progress)(void *arg, size_t done, size_t of), void *arg, struct mf_err *err);
void mf_cloning_release(struct mf_cloning *c); /* safe on a zeroed one */
/* Such a run without values or demonstrations, for its estimated memory, of which it takes none. */
int mf_cloning_outline(struct mf_cloning *c, const struct mf_policy_spec *spec, const struct mf_loaded *start,
                       enum mf_weights which, const struct mf_cloning_opts *opts, struct mf_err *err);
/* Adds the memory of the run of an outline, without the demonstrations. */
void mf_cloning_memory(struct mf_cloning *c, const struct mf_demos *d, struct mf_memory *to);

struct mf_cloning_stats {
    double loss, grad_norm;         /* sums over minibatches */
    struct mf_weigh_stats weighing; /* the same */
    double lr;                      /* of the last one */
};
/* Trains on the next minibatch and adds to the stats. MF_EMATH: its loss or gradient is not finite. */
int mf_cloning_step(struct mf_cloning *c, struct mf_cloning_stats *stats, struct mf_err *err);

int mf_cloning_save(struct mf_cloning *c, const char *path, struct mf_err *err);
double mf_cloning_checkpoint_bytes(const struct mf_cloning *c); /* estimated */
/* Resumes. MF_EUSAGE: the checkpoint has another seed, policy, number of samples or start. */
int mf_cloning_load(struct mf_cloning *c, const char *path, struct mf_err *err);

#endif
