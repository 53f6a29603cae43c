/* plan.h - a graph compiled for a tile of samples: fixed places, no allocation per run.
 *
 * What follows from parameters and shared inputs alone is computed once, and
 * again when they change; what flows back to it is done once, after all tiles.
 * Workers take tiles and run the rest of the plan (forward, backward) on each;
 * who has none left, and all where inference has few samples for many, take
 * parts of the operations of others.
 * The gradients of tile i go to accumulator lane i mod G, in order within a lane;
 * lanes are summed in order. So results do not depend on the number of
 * threads; G and the tile (which follows from the plan and the number of
 * samples) are part of the bits of a gradient.
 *
 * An engine has one caller at a time, and so have its plans.
 */
#ifndef MF_GRAPH_PLAN_H
#define MF_GRAPH_PLAN_H

#include "base/memory.h"
#include "dev/dev.h" /* enum mf_precision */
#include "graph/graph.h"

struct mf_engine; /* a device and its workers */

/* device: "cpu", "ref" (plain loops: the meaning), "cuda:0". threads 0: one per online core.
 * MF_EUSAGE where this build or processor has no such device or precision. */
int mf_engine_open(struct mf_engine **e, const char *device, int threads, enum mf_precision precision,
                   struct mf_err *err);
void mf_engine_close(struct mf_engine *e);
/* fn(arg, i) for i = 0..n-1 on the workers, in no order; returns when all are done. */
void mf_engine_each(struct mf_engine *e, int n, void (*fn)(void *arg, int i), void *arg);

struct mf_plan;

struct mf_plan_opts {
    int tile;      /* samples; 0: at most 64, by a memory budget, and so that a run has a tile for every lane */
    int lanes;     /* 0: 8, or 2 above 64 MiB of parameters */
    bool backward; /* plan gradients too */
};

/* The graph and its parameters outlive the plan. Of parameters without values it is an outline: it has no memory, tells
 * what it would need and cannot run. */
int mf_plan_new(struct mf_plan **p, struct mf_engine *e, struct mf_graph *g, const struct mf_plan_opts *opts,
                struct mf_err *err);
void mf_plan_free(struct mf_plan *p);
void mf_plan_memory(const struct mf_plan *p, size_t n, struct mf_memory *to); /* added: what runs of n samples touch */

/* Where an input's samples lie: sample i of the run reads rows*cols floats at base + index[i]*stride. */
struct mf_feed {
    struct mf_val input;
    const float *base;
    size_t stride; /* floats */
    bool direct;   /* by i, not by index[i] (weights of this minibatch) */
};

/* Where a value goes after a tile: base + i*stride. Not a norm that attention alone reads: it lies head by head. */
struct mf_fetch {
    struct mf_val value;
    float *base;
    size_t stride;
};

void mf_plan_set(struct mf_plan *p, struct mf_val shared, const float *data); /* copied; stays until set again */

/* Run n samples. index NULL: sample i is row i. With a backward plan the gradients are ready in
 * mf_plan_grads afterwards (zeroed first). Every input must be fed. */
int mf_plan_run(struct mf_plan *p, size_t n, const uint32_t *index, const struct mf_feed *feeds, int n_feeds,
                const struct mf_fetch *fetches, int n_fetches, struct mf_err *err);
float *mf_plan_grads(struct mf_plan *p); /* laid out as params->value */

/* AdamW (Loshchilov & Hutter 2019) with its own learning rate for every group. */
struct mf_adam {
    float *m, *v; /* as params->value */
    int64_t step[MF_GROUPS];
    double beta1, beta2, eps, weight_decay;
};

/* Of parameters without values: no moments. */
int mf_adam_init(struct mf_adam *a, const struct mf_params *ps, struct mf_err *err);
void mf_adam_release(struct mf_adam *a);
/* Gradient norms per group, in double, a fixed order. norm[MF_GROUPS] is that of all trained groups. */
void mf_grad_norms(struct mf_engine *e, const struct mf_params *ps, const float *grads, double norm[MF_GROUPS + 1]);
/* One step where lr[group] > 0, the gradient times scale[group]; then mf_params_touch. lr 0 leaves a group's
 * weights and moments as they are. */
void mf_adam_step(struct mf_engine *e, struct mf_adam *a, struct mf_params *ps, const float *grads,
                  const double lr[MF_GROUPS], const double scale[MF_GROUPS]);
/* ema = decay*ema + (1-decay)*value over a group. */
void mf_ema_step(struct mf_engine *e, const struct mf_params *ps, enum mf_group group, float *ema, double decay);

#endif
