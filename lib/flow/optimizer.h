/* optimizer.h - the state of training beside the weights, for cloning and PPO alike: AdamW's moments and step counts,
 * the average of the weights (EMA) and the number of minibatches.
 */
#ifndef MF_FLOW_OPTIMIZER_H
#define MF_FLOW_OPTIMIZER_H

#include "dev/device.h"
#include "flow/policy.h"
#include "graph/plan.h"

struct mf_loaded;

struct mf_optimizer_opts {
    bool average;        /* keep an EMA, of policy and encoder */
    double weight_decay; /* AdamW's */
    int patience;        /* this many non-finite gradients in a row end the run */
    const char *rate;    /* the key of the learning rate, for that error */
    const char *counter; /* the name of `minibatches` in a checkpoint */
};

struct mf_optimizer {
    struct mf_optimizer_opts opts;
    struct mf_engine *engine; /* borrowed, as the parameters */
    struct mf_params *params;
    struct mf_adam adam;
    float *ema;          /* as the moments; NULL: none */
    int64_t minibatches; /* so far, skipped ones included */
    int skipped;         /* in a row */
};

/* Moments of 0; the average starts at the weights. Of parameters without values it is an outline, which allocates
 * nothing. */
int mf_optimizer_init(struct mf_optimizer *o, struct mf_engine *e, struct mf_params *ps,
                      const struct mf_optimizer_opts *opts, struct mf_err *err);
void mf_optimizer_release(struct mf_optimizer *o); /* safe on a zeroed one */
/* Adds its memory and that of the weights on the device; of an outline too. */
void mf_optimizer_memory(const struct mf_optimizer *o, struct mf_memory *to);
void mf_optimizer_average_anew(struct mf_optimizer *o); /* the average becomes the weights */

/* A resumable checkpoint's moments, steps, average and count. */
int mf_optimizer_load(struct mf_optimizer *o, const struct mf_loaded *l, struct mf_err *err);

/* One minibatch on the device: gradients, then an AdamW step; `step` has all but the optimiser's own state and
 * constants, and is an update of its own. The minibatch is counted unless the step was vetoed. A gradient that is not
 * finite takes no step; MF_EMATH, with a verdict, where that happened `patience` times in a row. */
int mf_optimizer_learn(struct mf_optimizer *o, struct mf_plan *plan, const struct mf_batch *batch,
                       const struct mf_step *step, struct mf_verdict *v, struct mf_err *err);
/* The same in two halves, as mf_plan_start and mf_plan_finish; v is that of the start. */
int mf_optimizer_start(struct mf_optimizer *o, struct mf_plan *plan, const struct mf_batch *batch,
                       const struct mf_step *step, struct mf_verdict *v, struct mf_err *err);
int mf_optimizer_finish(struct mf_optimizer *o, struct mf_plan *plan, const struct mf_verdict *v, struct mf_err *err);
/* Copies weights, moments and average of the last step to the host. Call it before reading them there. */
int mf_optimizer_settle(struct mf_optimizer *o, struct mf_err *err);

/* ---- schedules ---- */

enum mf_lr_schedule { MF_LR_CONSTANT, MF_LR_LINEAR, MF_LR_COSINE };

/* The factor of a learning rate after `done` of `all`: 1 at first, and 0 in the end unless it is constant. */
double mf_lr_factor(enum mf_lr_schedule how, double done, double all);
/* decay = 1-(1+step/inv_gamma)^-power within [0, max] */
double mf_ema_decay(int64_t step, double inv_gamma, double power, double max);

#endif
