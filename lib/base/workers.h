/* workers.h - a few threads that wait for work: a moment awake, since one run often follows another at once, then
 * asleep, so that a busy neighbour costs no more than its share. Within a run, crew.h may keep them looking.
 *
 * The caller is worker 0. One caller at a time.
 */
#ifndef MF_BASE_WORKERS_H
#define MF_BASE_WORKERS_H

#include "base/err.h"

struct mf_workers;

/* threads 0: one per core that this process may use (cpus.h). As many as its affinity has cores: each keeps to its own.
 */
int mf_workers_new(struct mf_workers **w, int threads, struct mf_err *err);
void mf_workers_free(struct mf_workers *w); /* NULL is fine */
int mf_workers_count(const struct mf_workers *w);

/* fn(arg, worker) once on every worker, the caller among them; returns when all have ended. */
void mf_workers_run(struct mf_workers *w, void (*fn)(void *arg, int worker), void *arg);
/* fn(arg, i) for i = 0..n-1, each taken by whoever is free; returns when all are done. */
void mf_workers_each(struct mf_workers *w, int n, void (*fn)(void *arg, int i), void *arg);

#endif
