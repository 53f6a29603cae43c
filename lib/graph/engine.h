/* engine.h - the workers, as run.c and adam.c use them. */
#ifndef MF_GRAPH_ENGINE_H
#define MF_GRAPH_ENGINE_H

#include <pthread.h>

#include "graph/plan.h"

struct mf_engine {
    struct mf_dev dev;
    int threads; /* workers; the caller of a run is worker 0 */
    pthread_t *thread;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    unsigned round; /* counts runs: a worker sees a new one */
    int busy;       /* workers that have not ended this round */
    bool end;
    void (*fn)(void *arg, int worker);
    void *arg;
};

/* fn(arg, worker) once on every worker, the caller among them; returns when all have ended. */
void mf_engine_run(struct mf_engine *e, void (*fn)(void *arg, int worker), void *arg);

#endif
