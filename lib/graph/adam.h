/* adam.h - the optimiser's state, on the host and on the device that steps it: AdamW (Loshchilov & Hutter 2019) and an
 * exponential moving average of the weights. */
#ifndef MF_GRAPH_ADAM_H
#define MF_GRAPH_ADAM_H

#include "dev/device.h"
#include "graph/graph.h"

struct mf_engine;

struct mf_adam {
    float *m, *v; /* as params->value; NULL for parameters without values */
    float *ema;   /* the same, borrowed; NULL: no average */
    size_t floats;
    int64_t step[MF_DEVICE_GROUPS];
    double beta1, beta2, eps, weight_decay;

    struct mf_engine *engine; /* that has on_device; NULL before the first step */
    struct mf_adam_state on_device;
    bool sent, ahead; /* the device has what the host has; has newer */
};

int mf_adam_init(struct mf_adam *a, const struct mf_params *ps, struct mf_err *err);
void mf_adam_release(struct mf_adam *a); /* before its engine is closed */
void mf_adam_touch(struct mf_adam *a);   /* moments, steps or the average were changed on the host */

#endif
