/* engine.c - one worker per core, asleep on a condition between runs: nothing spins, a busy neighbour costs its share.
 */
#include "graph/engine.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"

struct start {
    struct mf_engine *e;
    int worker;
};

static void *worker(void *arg)
{
    struct start s = *(struct start *)arg;
    struct mf_engine *e = s.e;
    unsigned seen = 0;
    free(arg);
    pthread_mutex_lock(&e->lock);
    for (;;) {
        while (e->round == seen && !e->end)
            pthread_cond_wait(&e->work, &e->lock);
        if (e->end)
            break;
        seen = e->round;
        pthread_mutex_unlock(&e->lock);
        e->fn(e->arg, s.worker);
        pthread_mutex_lock(&e->lock);
        if (--e->busy == 0)
            pthread_cond_signal(&e->done);
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

void mf_engine_run(struct mf_engine *e, void (*fn)(void *arg, int worker), void *arg)
{
    if (e->threads > 1) {
        pthread_mutex_lock(&e->lock);
        e->fn = fn;
        e->arg = arg;
        e->busy = e->threads - 1;
        e->round++;
        pthread_cond_broadcast(&e->work);
        pthread_mutex_unlock(&e->lock);
    }
    fn(arg, 0);
    if (e->threads > 1) {
        pthread_mutex_lock(&e->lock);
        while (e->busy)
            pthread_cond_wait(&e->done, &e->lock);
        pthread_mutex_unlock(&e->lock);
    }
}

struct each {
    int n;
    void (*fn)(void *arg, int i);
    void *arg;
    atomic_int next;
};

static void each_worker(void *arg, int worker_id)
{
    struct each *x = arg;
    (void)worker_id;
    for (int i; (i = atomic_fetch_add(&x->next, 1)) < x->n;)
        x->fn(x->arg, i);
}

void mf_engine_each(struct mf_engine *e, int n, void (*fn)(void *arg, int i), void *arg)
{
    struct each x = {.n = n, .fn = fn, .arg = arg};
    if (n == 1)
        fn(arg, 0);
    else if (n > 1)
        mf_engine_run(e, each_worker, &x);
}

/* Worker w goes to the w'th core that this process may use; the caller (worker 0) stays where its owner put it. */
static void pin(pthread_t thread, const cpu_set_t *may, int w)
{
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, may) && seen++ == w) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            pthread_setaffinity_np(thread, sizeof one, &one);
        }
}

int mf_engine_open(struct mf_engine **out, const char *device, int threads, enum mf_precision precision,
                   struct mf_err *err)
{
    struct mf_dev dev;
    cpu_set_t may;
    int rc = mf_dev_find(&dev, device, precision, err);
    if (rc)
        return rc;
    if (threads < 0 || threads > 1024)
        return mf_err_set(err, MF_EUSAGE, "threads=%d is not in 0..1024", threads);
    int cores = sched_getaffinity(0, sizeof may, &may) == 0 ? CPU_COUNT(&may) : 0;
    if (threads == 0)
        threads = cores > 0 ? cores : (int)sysconf(_SC_NPROCESSORS_ONLN);
    struct mf_engine *e = mf_xcalloc(1, sizeof *e);
    e->dev = dev;
    e->threads = 1;
    e->thread = mf_xcalloc((size_t)threads, sizeof *e->thread);
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->work, NULL);
    pthread_cond_init(&e->done, NULL);
    for (int w = 1; w < threads; w++) {
        struct start *s = mf_xcalloc(1, sizeof *s);
        *s = (struct start){e, w};
        if (pthread_create(&e->thread[w], NULL, worker, s)) {
            free(s);
            mf_engine_close(e);
            return mf_err_set(err, MF_ENOMEM, "cannot start worker %d of %d; take fewer threads", w, threads);
        }
        e->threads++;
        if (cores >= threads)
            pin(e->thread[w], &may, w);
    }
    *out = e;
    return 0;
}

void mf_engine_close(struct mf_engine *e)
{
    if (!e)
        return;
    pthread_mutex_lock(&e->lock);
    e->end = true;
    pthread_cond_broadcast(&e->work);
    pthread_mutex_unlock(&e->lock);
    for (int w = 1; w < e->threads; w++)
        pthread_join(e->thread[w], NULL);
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->work);
    pthread_cond_destroy(&e->done);
    free(e->thread);
    free(e);
}

int mf_engine_threads(const struct mf_engine *e)
{
    return e->threads;
}
