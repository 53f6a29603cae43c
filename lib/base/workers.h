/* workers.h - a pool of threads. An idle worker spins briefly, since the next run often follows at once, and then
 * sleeps, so that it takes no core from another process. Within a run, crew.h may keep them spinning.
 *
 * The caller is worker 0. One caller at a time.
 */
#ifndef MF_BASE_WORKERS_H
#define MF_BASE_WORKERS_H

#include "base/err.h"

struct mf_workers;

/* threads 0: one per core that this process may use (cpus.h). If there are as many threads as cores in the affinity
 * mask, each is pinned to one.
 */
int mf_workers_new(struct mf_workers **w, int threads, struct mf_err *err);
void mf_workers_free(struct mf_workers *w); /* NULL is fine */
int mf_workers_count(const struct mf_workers *w);

/* Calls fn(arg, worker) once on every worker, including the caller; returns when all are done. */
void mf_workers_run(struct mf_workers *w, void (*fn)(void *arg, int worker), void *arg);
/* Calls fn(arg, i) for i = 0..n-1, each on the next free worker; returns when all are done. */
void mf_workers_each(struct mf_workers *w, int n, void (*fn)(void *arg, int i), void *arg);

#endif
