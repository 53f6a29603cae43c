/* engine.h - a device and its workers, as plan.c and run.c use them. */
#ifndef MF_GRAPH_ENGINE_H
#define MF_GRAPH_ENGINE_H

#include "base/workers.h"
#include "graph/plan.h"

struct mf_engine {
    struct mf_dev dev;
    struct mf_workers *workers;
};

#endif
