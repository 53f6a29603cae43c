/* pool.h - a job done n times by a few threads that wait, asleep, between calls. */
#ifndef MF_ENV_POOL_H
#define MF_ENV_POOL_H

#include "base/err.h"

struct mf_pool;

/* The caller is one of the threads; 0: one per online core. */
int mf_pool_new(struct mf_pool **p, int threads, struct mf_err *err);
void mf_pool_free(struct mf_pool *p); /* NULL is fine */

/* job(context, i) for i = 0..n-1, each taken by whoever is free; returns when all are done. */
void mf_pool_run(struct mf_pool *p, void (*job)(void *context, int i), void *context, int n);

#endif
