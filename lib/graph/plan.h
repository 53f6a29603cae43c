/* plan.h - a graph compiled for a device, and run there on any number of samples.
 *
 * The plan decides which values are differentiated, their lifetimes and places; the device (dev/device.h) decides how
 * many samples it computes at once, on how many cores and by which kernels. Values that derive from parameters and
 * shared inputs alone are computed once, and again when these change. Results depend on the device and on the numbers
 * of lanes and samples, never on the number of threads.
 *
 * An engine has one caller at a time, and so have its plans.
 */
#ifndef MF_GRAPH_PLAN_H
#define MF_GRAPH_PLAN_H

#include "base/memory.h"
#include "dev/device.h"
#include "graph/adam.h"

struct mf_engine; /* a device and its workers */

/* device: a name of mf_devices, "cpu" or "ref" (plain loops), or of a plugin (dev/plugin.h), "cuda"; with ":which"
 * where it takes that. threads 0: one per core that the process may use. MF_EUSAGE where this installation or machine
 * lacks the device or the precision. */
int mf_engine_open(struct mf_engine **e, const char *device, int threads, enum mf_precision precision,
                   struct mf_err *err);
/* The same, of a device by its table. */
int mf_engine_on(struct mf_engine **e, const struct mf_device *device, const char *which, int threads,
                 enum mf_precision precision, struct mf_err *err);
/* For later plans: their lanes (as in struct mf_plan_opts; 0 there takes these), and the ranks that divide them
 * (ranks/ranks.h), each of which runs the same plans on the same batches: with the bits of one process. NULL: alone.
 * MF_EUSAGE: the device does not divide its lanes. */
int mf_engine_divide(struct mf_engine *e, int lanes, struct mf_ranks *ranks, struct mf_err *err);
/* Then, in all ranks together and before the first run: checks their devices against each other, chooses the way by
 * which they exchange gradients, and logs it. MF_EUSAGE: the devices do not go together. */
int mf_engine_join(struct mf_engine *e, struct mf_err *err);
struct mf_ranks *mf_engine_ranks(const struct mf_engine *e);
void mf_engine_close(struct mf_engine *e); /* after its plans and optimisers; NULL is fine */
/* Logs what the engine computes on, in one line, unless it is the host's processor. */
void mf_engine_log(const struct mf_engine *e);
/* Adds arrays of so many floats that have copies on the device, where that has a memory of its own. */
void mf_engine_memory(const struct mf_engine *e, double floats, struct mf_memory *to);
/* Of the device now; false: it has none to report. */
bool mf_engine_usage(const struct mf_engine *e, struct mf_device_usage *u);
bool mf_engine_in_host(const struct mf_engine *e); /* it computes in the host's memory */
int mf_engine_ahead(const struct mf_engine *e);    /* at most so many jobs of a plan are started and not finished */
/* Floats that feeds read by index, in several runs: they do not change until they are let go, so that the device copies
 * them once. */
int mf_engine_hold(struct mf_engine *e, const float *base, size_t floats, struct mf_err *err);
void mf_engine_let_go(struct mf_engine *e, const float *base); /* of what is not held: nothing */
/* fn(arg, i) for i = 0..n-1 on the workers, in no order; returns when all are done. */
void mf_engine_each(struct mf_engine *e, int n, void (*fn)(void *arg, int i), void *arg);

struct mf_plan;

struct mf_plan_opts {
    int tile;      /* samples, in every tile; 0: as the device chooses */
    int lanes;     /* 0: 8, or 2 above 64 MiB of trained parameters */
    bool backward; /* compute gradients, too */
};

/* The graph and its parameters outlive the plan. Of parameters without values it is an outline: it allocates no memory
 * and cannot run, but mf_plan_memory estimates it. MF_EUSAGE where there are too many lanes, or the device cannot
 * compute the graph. */
int mf_plan_new(struct mf_plan **p, struct mf_engine *e, struct mf_graph *g, const struct mf_plan_opts *opts,
                struct mf_err *err);
void mf_plan_free(struct mf_plan *p);
/* Adds the estimated memory of runs of n samples, without the weights. */
void mf_plan_memory(const struct mf_plan *p, size_t n, struct mf_memory *to);

/* of[i]: the rank that computes sample i of n. Of a plan with gradients; one without runs all samples in each rank. */
void mf_plan_ranks(const struct mf_plan *p, size_t n, int *of);

/* A shared input's rows*cols floats, copied; they stay until set again. */
void mf_plan_set(struct mf_plan *p, struct mf_val shared, const float *data);

/* Forward, and backward where the plan has it: gradients are sums over the samples of the batch. The device first gets
 * the weights and shared inputs that the host has changed. MF_EUSAGE where an input was not fed or set, where a value
 * cannot be fetched, or of an outline. */
int mf_plan_run(struct mf_plan *p, const struct mf_batch *b, struct mf_err *err);
/* The same, and a step of the optimiser by these gradients; the verdict says whether it was taken. `step` has all but
 * the moments and Adam's constants, which are a's. It is an update of its own: `first`. */
int mf_plan_learn(struct mf_plan *p, const struct mf_batch *b, const struct mf_step *step, struct mf_adam *a,
                  struct mf_verdict *verdict, struct mf_err *err);
/* mf_plan_learn in two halves, between which the host prepares the next batch. `start` has read the batch and its
 * arrays when it returns; `finish`, of the oldest that was started, has written fetches and verdict. Each that started
 * is finished before anything else is done with the plan or its weights but to start another. */
int mf_plan_start(struct mf_plan *p, const struct mf_batch *b, const struct mf_step *step, struct mf_adam *a,
                  struct mf_verdict *verdict, struct mf_err *err);
int mf_plan_finish(struct mf_plan *p, struct mf_err *err);
const float *
mf_plan_grads(struct mf_plan *p); /* a copy on the host, as the trained ones of params->value; NULL: it failed; after
                                   * a step of several ranks, only this one's segment is meant */

/* Which copy is newer: after mf_plan_learn the device may have newer weights, moments and averages than the host.
 * Settle before the host reads or writes them, and before the last plan of these parameters is freed. After the host
 * has written, mf_params_touch and mf_adam_touch: the next run sends the host's copy. */

/* Fetches from the device what it has newer. a: or NULL. After a failure it may be called again. */
int mf_engine_settle(struct mf_engine *e, const struct mf_params *ps, struct mf_adam *a, struct mf_err *err);
/* On the device: to's weights become from's, but a's average of them in the groups of the bits 1 << group; a NULL:
 * from's in all. Both have plans on this engine. */
int mf_weights_copy(struct mf_engine *e, struct mf_params *to, const struct mf_params *from, struct mf_adam *a,
                    unsigned averaged, struct mf_err *err);

#endif
