/* adam.h - the state of AdamW (Loshchilov & Hutter 2019) and of an exponential moving average of the weights (EMA), on
 * the host and on the device that steps it. plan.h says which copy is newer when.
 *
 * Several ranks (ranks/ranks.h) have a segment of it each (Rajbhandari et al. 2020, ZeRO-1), which they step. On
 * devices with a memory of their own, each has and steps all of it.
 */
#ifndef MF_GRAPH_ADAM_H
#define MF_GRAPH_ADAM_H

#include "dev/device.h"
#include "graph/graph.h"

struct mf_engine;

struct mf_adam {
    float *m, *v; /* (floats): as the trained ones of params->value, from `first` on; NULL where that is */
    float *ema;   /* the same, borrowed; set before the first step; NULL: no average */
    size_t first, floats;
    int64_t step[MF_DEVICE_GROUPS]; /* taken */
    double beta1, beta2, eps, weight_decay;

    struct mf_ranks *ranks;   /* borrowed; NULL: alone */
    size_t *segment;          /* (ranks + 1), as the listing's; of a state that each has, all is rank 0's */
    struct mf_engine *engine; /* of on_device, the same for all steps; NULL before the first */
    struct mf_adam_state on_device;
    bool sent;  /* the device has the host's numbers, or newer ones */
    bool ahead; /* the device has newer ones */
};

/* Moments and step counts of 0. e: it steps them; its ranks, by mf_engine_divide before, share them. NULL:
 * alone. */
int mf_adam_init(struct mf_adam *a, const struct mf_engine *e, const struct mf_params *ps, struct mf_err *err);
void mf_adam_release(struct mf_adam *a); /* before its engine is closed; safe on a zeroed one */
void mf_adam_touch(struct mf_adam *a);   /* the host has changed any of it: the next step sends it */

/* The host's: of trained floats [at, at + n), those that this rank has are [at + *skip, at + *skip + return value). */
size_t mf_adam_part(const struct mf_adam *a, size_t at, size_t n, size_t *skip);
bool mf_adam_spread(const struct mf_adam *a); /* over several ranks; NULL is not */
bool mf_adam_leads(const struct mf_adam *a);  /* here is the rank that writes; NULL is */
/* To rank 0, from all: [at, at + n) of m, v or ema. All ranks call it alike, with room for n at `to`. */
int mf_adam_collect(const struct mf_adam *a, const float *of, size_t at, size_t n, float *to, struct mf_err *err);

/* Of the trained parameters, rank k of so many steps those from [k] to before [k + 1]: about the same number in each,
 * and whole slices of a step. (ranks + 1); free() it. */
size_t *mf_segments(const struct mf_params *ps, int ranks);

#endif
