/* engine.h - an opened device, the host's workers, and which weights of the host the device has. */
#ifndef MF_GRAPH_ENGINE_H
#define MF_GRAPH_ENGINE_H

#include "graph/plan.h"

struct mf_mirror { /* parameters on the device: for all plans that use them */
    float *host, *device;
    size_t floats;
    uint64_t version; /* mf_params.version that the device has; ~0: none */
    bool ahead;       /* the device's are newer: it made a step */
    int users;
    struct mf_mirror *next;
};

struct mf_engine {
    const struct mf_device *device;
    struct mf_dev *dev;
    struct mf_workers *workers;
    struct mf_mirror *mirrors;
};

/* NULL: *err. */
struct mf_mirror *mf_engine_mirror(struct mf_engine *e, float *host, size_t floats, struct mf_err *err);
void mf_engine_unmirror(struct mf_engine *e, struct mf_mirror *m); /* NULL is fine */
int mf_mirror_update(struct mf_engine *e, struct mf_mirror *m, const struct mf_params *ps, struct mf_err *err);

int mf_adam_ready(struct mf_adam *a, struct mf_engine *e, struct mf_err *err); /* the device has its moments */

#endif
