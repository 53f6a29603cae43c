/* cloner.h - behaviour cloning: the loss of a minibatch of dataset windows, and its gradients. */
#ifndef MF_FLOW_CLONER_H
#define MF_FLOW_CLONER_H

#include "dev/device.h"
#include "flow/optimizer.h"
#include "flow/policy.h"
#include "graph/plan.h"

/* cfm is a consistency loss without a step size, for every network (flow consistency with an EMA teacher, as a fork of
 * RLinf fine-tunes pi0.5). Of n samples the first n*3/4 have the flow loss; for the others, with t = 1 the noise,
 *
 *   t = eps + (1 - 2 eps) U,  r = max(t - (.01 + .09 U'), eps),  eps = .001;  x_t and x_r with the same noise
 *   target (x_t - a)/t,  a = x_r - r v_teacher(x_r, r)
 *
 * and the loss is the mean over all of them. A network that takes a step size gets 0. */
enum mf_clone_loss { MF_CLONE_FLOW, MF_CLONE_SHORTCUT, MF_CLONE_CONSISTENCY, MF_CLONE_CFM };
enum mf_time_sampling { /* auto: beta for the consistency and cfm losses, else uniform */
                        MF_TIME_AUTO,
                        MF_TIME_UNIFORM,
                        MF_TIME_LOGIT_NORMAL,
                        MF_TIME_BETA,
};
enum mf_loss_dims { MF_LOSS_ALL, MF_LOSS_ENV }; /* numbers of an action: the network's, or the environment's alone */
struct mf_cloner;                               /* builds the loss's graphs, draws times and noises */
struct mf_clone_opts {
    enum mf_clone_loss loss;
    enum mf_time_sampling sampling;
    float dropout; /* of a transformer's self-attention */
    uint64_t seed;
    enum mf_loss_dims dims;
};
int mf_cloner_new(struct mf_cloner **c, struct mf_engine *e, struct mf_policy *p, const struct mf_clone_opts *opts,
                  struct mf_err *err);
/* Adds the estimated memory of a cloner and its minibatches of n; of a policy that is an outline, too. */
void mf_cloner_memory(const struct mf_cloner *c, size_t n, struct mf_memory *to);
void mf_cloner_free(struct mf_cloner *c);

struct mf_clone_batch {
    int64_t step; /* draws are a function of (seed, step) */
    size_t n;
    const uint32_t *index;      /* (n) rows of the arrays; NULL: 0, 1, .. */
    const float *obs, *actions; /* (.., O), (.., D) normalised */
    const float *weight;        /* (n) of the samples' losses, in all terms; NULL: 1. mf_cloner_start reads it */
};
/* The loss of a batch, and a step of the optimiser by its gradients. Where o keeps an average of the weights, a teacher
 * has it: cfm's whole, those of the other losses with the student's encoder. MF_EMATH where the loss is not finite. */
int mf_cloner_run(struct mf_cloner *c, const struct mf_clone_batch *b, struct mf_optimizer *o,
                  const struct mf_step *how, double *loss, struct mf_verdict *verdict, struct mf_err *err);
/* The same in two halves, as mf_plan_start and mf_plan_finish. Between them the caller reads the next batch, into the
 * same arrays if it likes, and draws its noises and times, which else the start does; it has no more rows. */
int mf_cloner_start(struct mf_cloner *c, const struct mf_clone_batch *b, struct mf_optimizer *o,
                    const struct mf_step *how, struct mf_verdict *verdict, struct mf_err *err);
int mf_cloner_draw(struct mf_cloner *c, const struct mf_clone_batch *next, struct mf_err *err);
int mf_cloner_finish(struct mf_cloner *c, struct mf_optimizer *o, double *loss, const struct mf_verdict *verdict,
                     struct mf_err *err);
const float *mf_cloner_grads(struct mf_cloner *c); /* of the last batch, as params.value; NULL: it failed */

#endif
