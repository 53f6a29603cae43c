/* adam.h - the state of AdamW (Loshchilov & Hutter 2019) and of an exponential moving average of the weights (EMA), on
 * the host and on the device that steps it. plan.h says which copy is newer when.
 */
#ifndef MF_GRAPH_ADAM_H
#define MF_GRAPH_ADAM_H

#include "dev/device.h"
#include "graph/graph.h"

struct mf_engine;

struct mf_adam {
    float *m, *v; /* laid out as the trained ones of params->value; NULL for parameters without values */
    float *ema;   /* the same, borrowed; set before the first step; NULL: no average */
    size_t floats;
    int64_t step[MF_DEVICE_GROUPS]; /* taken */
    double beta1, beta2, eps, weight_decay;

    struct mf_engine *engine; /* of on_device, the same for all steps; NULL before the first */
    struct mf_adam_state on_device;
    bool sent;  /* the device has the host's numbers, or newer ones */
    bool ahead; /* the device has newer ones */
};

/* Moments and step counts of 0. */
int mf_adam_init(struct mf_adam *a, const struct mf_params *ps, struct mf_err *err);
void mf_adam_release(struct mf_adam *a); /* before its engine is closed; safe on a zeroed one */
void mf_adam_touch(struct mf_adam *a);   /* the host has changed any of it: the next step sends it */

#endif
