/* critics.h - value functions that learn offline: critics Q(s, a) with averaged targets, a value function V(s), or
 * both; their optimiser, and their runs on an engine.
 *
 *   n rows  O observation  A floats of an executed chunk, C actions  N critics
 */
#ifndef MF_RL_CRITICS_H
#define MF_RL_CRITICS_H

#include "flow/checkpoint.h"
#include "graph/plan.h"
#include "rl/learned.h"
#include "rl/qnet.h"

struct mf_critics_opts {
    int O, A;
    struct mf_qnet q; /* n = N; 0: no Q. Widths and activation are V's, too. Its prefix is not used */
    bool value;       /* V */
    double tau;       /* targets = (1 - tau) targets + tau weights, after every step */
    uint64_t seed;
};

struct mf_critics {
    struct mf_critics_opts opts;
    struct mf_engine *engine; /* borrowed */
    struct mf_learned of;     /* offline/critic.*, offline/value.*; its average is the targets */
    struct mf_side side;      /* for the checkpoint: parameters, targets, moments */
    struct mf_critics_net {
        struct mf_graph *g;
        struct mf_plan *plan;
        struct mf_val action, obs, y, weight, v_y, v_weight; /* inputs */
        struct mf_val q, v, q_loss, v_loss;
    } learn, target, value; /* target: Q alone; value: V alone */
    float *loss;            /* (room, 2) */
    size_t room;
};

/* outline: parameters without values, for mf_critics_memory alone. */
int mf_critics_open(struct mf_critics *c, struct mf_engine *e, const struct mf_critics_opts *opts, bool outline,
                    struct mf_err *err);
void mf_critics_release(struct mf_critics *c);                                      /* safe on a zeroed one */
void mf_critics_memory(const struct mf_critics *c, size_t n, struct mf_memory *to); /* adds that of minibatches of n */

struct mf_critics_batch { /* actions (n, A), `stride` floats apart; obs (n, O), both normalised */
    size_t n, stride;
    const float *actions, *obs;
    const float *y, *weight;     /* (n) Q's targets, and the factors of their squared errors; unused without Q */
    const float *v_y, *v_weight; /* (n) V's */
};
/* A step of AdamW. q (n, N) and v (n) are the values before it, or NULL; *loss is the sum over Q (mf_qnet_loss) and V.
 * MF_EMATH: it is not finite. */
int mf_critics_learn(struct mf_critics *c, const struct mf_critics_batch *b, double rate, float *q, float *v,
                     double *loss, struct mf_err *err);
/* The targets' Q (n, N); V (n) of the current weights. */
int mf_critics_target(struct mf_critics *c, size_t n, const float *actions, size_t stride, const float *obs, float *q,
                      struct mf_err *err);
int mf_critics_value(struct mf_critics *c, size_t n, const float *obs, float *v, struct mf_err *err);

#endif
