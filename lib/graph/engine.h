/* engine.h - an opened device, the host's workers, and copies of the host's parameters on the device (private to
 * lib/graph).
 */
#ifndef MF_GRAPH_ENGINE_H
#define MF_GRAPH_ENGINE_H

#include "graph/plan.h"

struct mf_mirror { /* the device's copy of one parameter array, for all plans that use it */
    float *host, *device;
    size_t floats;
    uint64_t version; /* of the copy, as mf_params.version; ~0: not valid */
    bool ahead;       /* newer than the host's: the device has taken a step */
    int users;        /* plans */
    struct mf_mirror *next;
};

struct mf_engine {
    const struct mf_device *device;
    struct mf_dev *dev;
    struct mf_workers *workers;
    struct mf_ranks *ranks; /* borrowed; NULL: this process computes alone */
    int lanes;              /* of plans that leave it open; 0: by the size of their parameters */
    bool warned;            /* of ranks without a lane */
    struct mf_mirror *mirrors;
};

extern const struct mf_ranks_verbs mf_engine_verbs; /* for plugins, which do not link them */

/* The mirror of these floats, with one user more; it is made for the first. NULL: *err. */
struct mf_mirror *mf_engine_mirror(struct mf_engine *e, float *host, size_t floats, struct mf_err *err);
/* One user less; the last one frees it. NULL is fine. */
void mf_engine_unmirror(struct mf_engine *e, struct mf_mirror *m);
/* Sends the parameters where their version is another than the mirror's. */
int mf_mirror_update(struct mf_engine *e, struct mf_mirror *m, const struct mf_params *ps, struct mf_err *err);

#define MF_STEP_FLOATS (MF_DEVICE_GROUPS * sizeof(int64_t) / sizeof(float)) /* the size of step counts */

/* Allocates the state on the device at first, and sends it where the host has changed it. */
int mf_adam_ready(struct mf_adam *a, struct mf_engine *e, struct mf_err *err);

#endif
