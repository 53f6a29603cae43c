#include "env/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

struct mf_pool {
    pthread_mutex_t lock;
    pthread_cond_t work, idle;
    pthread_t *thread;
    int helpers, busy; /* the threads but the caller; how many are still at it */
    uint64_t round;
    bool quit;
    void (*job)(void *, int);
    void *context;
    int n;
    atomic_int next;
};

static void take_jobs(struct mf_pool *p)
{
    for (int i; (i = atomic_fetch_add(&p->next, 1)) < p->n;)
        p->job(p->context, i);
}

static void *helper(void *arg)
{
    struct mf_pool *p = arg;
    pthread_mutex_lock(&p->lock);
    for (uint64_t seen = 0;;) {
        while (p->round == seen && !p->quit)
            pthread_cond_wait(&p->work, &p->lock);
        if (p->quit)
            break;
        seen = p->round;
        pthread_mutex_unlock(&p->lock);
        take_jobs(p);
        pthread_mutex_lock(&p->lock);
        if (--p->busy == 0)
            pthread_cond_signal(&p->idle);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

int mf_pool_new(struct mf_pool **out, int threads, struct mf_err *err)
{
    int helpers = (threads ? threads : (int)sysconf(_SC_NPROCESSORS_ONLN)) - 1;
    struct mf_pool *p = mf_xcalloc(1, sizeof *p);
    p->thread = mf_xcalloc((size_t)helpers, sizeof *p->thread);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->idle, NULL);
    for (; p->helpers < helpers; p->helpers++) {
        int code = pthread_create(&p->thread[p->helpers], NULL, helper, p);
        if (code) {
            mf_pool_free(p);
            return mf_err_set(err, MF_EIO, "cannot start %d threads for the environments: %s", helpers, strerror(code));
        }
    }
    *out = p;
    return 0;
}

void mf_pool_free(struct mf_pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->quit = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->helpers; i++)
        pthread_join(p->thread[i], NULL);
    free(p->thread);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->idle);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

void mf_pool_run(struct mf_pool *p, void (*job)(void *, int), void *context, int n)
{
    pthread_mutex_lock(&p->lock);
    p->job = job;
    p->context = context;
    p->n = n;
    atomic_store(&p->next, 0);
    p->busy = p->helpers;
    p->round++;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    take_jobs(p);
    pthread_mutex_lock(&p->lock);
    while (p->busy)
        pthread_cond_wait(&p->idle, &p->lock);
    pthread_mutex_unlock(&p->lock);
}
