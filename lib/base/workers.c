#include "base/workers.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpus.h"
#include "base/mem.h"

enum { PATIENCE = 1000 }; /* polls, some 20 us, before a thread sleeps: the next run often follows at once */

struct helper {
    struct mf_workers *all;
    int worker;
    pthread_t thread;
};

struct mf_workers {
    int n;                 /* with the caller */
    struct helper *helper; /* by worker; 0 is the caller and has no thread of its own */
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    atomic_uint round; /* counts runs: a helper sees a new one */
    atomic_int busy;   /* helpers that have not ended this round */
    bool end;
    void (*fn)(void *arg, int worker);
    void *arg;
};

static void *help(void *arg)
{
    struct helper *h = arg;
    struct mf_workers *w = h->all;
    for (unsigned seen = 0;;) {
        for (int looks = 0; looks < PATIENCE && atomic_load(&w->round) == seen; looks++)
            __builtin_ia32_pause();
        pthread_mutex_lock(&w->lock);
        while (w->round == seen && !w->end)
            pthread_cond_wait(&w->work, &w->lock);
        if (w->end)
            break;
        seen = w->round;
        pthread_mutex_unlock(&w->lock);
        w->fn(w->arg, h->worker);
        pthread_mutex_lock(&w->lock);
        if (--w->busy == 0)
            pthread_cond_signal(&w->done);
        pthread_mutex_unlock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

void mf_workers_run(struct mf_workers *w, void (*fn)(void *arg, int worker), void *arg)
{
    if (w->n == 1) {
        fn(arg, 0);
        return;
    }
    pthread_mutex_lock(&w->lock);
    w->fn = fn;
    w->arg = arg;
    w->busy = w->n - 1;
    w->round++;
    pthread_cond_broadcast(&w->work);
    pthread_mutex_unlock(&w->lock);
    fn(arg, 0);
    for (int looks = 0; looks < PATIENCE && atomic_load(&w->busy) > 0; looks++)
        __builtin_ia32_pause();
    pthread_mutex_lock(&w->lock);
    while (w->busy)
        pthread_cond_wait(&w->done, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

struct each {
    int n;
    void (*fn)(void *arg, int i);
    void *arg;
    atomic_int next;
};

static void take(void *arg, int worker)
{
    struct each *x = arg;
    (void)worker;
    for (int i; (i = atomic_fetch_add(&x->next, 1)) < x->n;)
        x->fn(x->arg, i);
}

void mf_workers_each(struct mf_workers *w, int n, void (*fn)(void *arg, int i), void *arg)
{
    struct each x = {.n = n, .fn = fn, .arg = arg};
    if (n == 1)
        fn(arg, 0);
    else if (n > 1)
        mf_workers_run(w, take, &x);
}

/* Pins worker i to the i-th core that this process may use; the caller's affinity is not changed. */
static void pin(const struct helper *h, const cpu_set_t *may)
{
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, may) && seen++ == h->worker) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            pthread_setaffinity_np(h->thread, sizeof one, &one);
        }
}

int mf_workers_new(struct mf_workers **out, int threads, struct mf_err *err)
{
    cpu_set_t may;
    int cores = sched_getaffinity(0, sizeof may, &may) == 0 ? CPU_COUNT(&may) : 0;
    if (threads == 0)
        threads = mf_cpus("");
    struct mf_workers *w = mf_xcalloc(1, sizeof *w);
    w->helper = mf_xcalloc((size_t)threads, sizeof *w->helper);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->work, NULL);
    pthread_cond_init(&w->done, NULL);
    for (w->n = 1; w->n < threads; w->n++) {
        struct helper *h = &w->helper[w->n];
        *h = (struct helper){.all = w, .worker = w->n};
        int code = pthread_create(&h->thread, NULL, help, h);
        if (code) {
            mf_workers_free(w);
            return mf_err_set(err, MF_ENOMEM, "cannot start %d threads (%s); give fewer threads", threads,
                              strerror(code));
        }
        if (threads == cores)
            pin(h, &may);
    }
    *out = w;
    return 0;
}

void mf_workers_free(struct mf_workers *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->end = true;
    pthread_cond_broadcast(&w->work);
    pthread_mutex_unlock(&w->lock);
    for (int i = 1; i < w->n; i++)
        pthread_join(w->helper[i].thread, NULL);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->work);
    pthread_cond_destroy(&w->done);
    free(w->helper);
    free(w);
}

int mf_workers_count(const struct mf_workers *w)
{
    return w->n;
}
