/* rank_lab.h - ranks as threads of one process, over a transport between them. */
#ifndef MF_RANK_LAB_H
#define MF_RANK_LAB_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ranks/ranks.h"
#include "ranks/transport.h"

enum { MOST = 5 };

/* ---- a transport between threads ---- */

struct letter {
    struct letter *next;
    size_t n;
    char bytes[];
};

struct awaited {
    int from; /* -1: a message that was sent, and so has ended */
    void *to;
    size_t n;
};

struct end { /* of one rank */
    int me, n_awaited, closed_by;
    struct awaited awaited[512];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct letter *post[MOST][MOST]; /* from, to: the oldest first */

static int send_bytes(void *self, int to, const void *bytes, size_t n, struct mf_err *why)
{
    struct end *e = self;
    struct letter *l = mf_xcalloc(1, sizeof *l + n), **at;
    (void)why;
    l->n = n;
    memcpy(l->bytes, bytes, n);
    pthread_mutex_lock(&lock);
    for (at = &post[e->me][to]; *at; at = &(*at)->next)
        ;
    *at = l;
    pthread_mutex_unlock(&lock);
    e->awaited[e->n_awaited++] = (struct awaited){.from = -1};
    return 0;
}

static int receive_bytes(void *self, int from, void *bytes, size_t n, struct mf_err *why)
{
    struct end *e = self;
    (void)why;
    e->awaited[e->n_awaited++] = (struct awaited){from, bytes, n};
    return 0;
}

static bool arrived(const struct end *e, const struct awaited *a)
{
    pthread_mutex_lock(&lock);
    struct letter **at = &post[a->from][e->me], *l = *at;
    if (l)
        *at = l->next;
    pthread_mutex_unlock(&lock);
    if (l && l->n != a->n)
        abort();
    if (l)
        memcpy(a->to, l->bytes, l->n);
    free(l);
    return l;
}

static bool aborts; /* an end that is closed with a status ends all, as in MPI */
static atomic_bool aborted;

static int poll_all(void *self, bool *ended, struct mf_err *why)
{
    struct end *e = self;
    int left = 0;
    bool blocked[MOST] = {false};
    if (atomic_load(&aborted))
        return mf_err_set(why, MF_EIO, "aborted");
    for (int i = 0; i < e->n_awaited; i++) {
        const struct awaited *a = &e->awaited[i];
        if (ended[i])
            continue;
        ended[i] = a->from < 0 || (!blocked[a->from] && arrived(e, a));
        if (!ended[i])
            blocked[a->from] = true, left++;
    }
    if (left == 0)
        e->n_awaited = 0;
    return left;
}

static void close_end(void *self, int status, double patience)
{
    (void)patience;
    ((struct end *)self)->closed_by = status;
    if (status && aborts)
        atomic_store(&aborted, true);
}

static const struct mf_transport threads = {NULL, send_bytes, receive_bytes, poll_all, close_end};

/* ---- ranks as threads ---- */

struct rank {
    struct end end;
    int n;
    double patience;
    struct mf_ranks *ranks;
    struct mf_err err;
    int rc;
    int (*job)(struct rank *r);
    void *arg;
};

static struct rank rank[MOST];

static void *live(void *arg)
{
    struct rank *r = arg;
    r->rc = mf_ranks_on(&r->ranks, &threads, &r->end, r->n, r->end.me, r->patience, &r->err);
    r->rc = r->rc ? r->rc : r->job(r);
    mf_ranks_close(r->ranks, r->rc ? 1 : 0);
    return NULL;
}

/* Returns how many failed. Their unread letters go. */
static inline int together(int n, double patience, int (*job)(struct rank *r), void *arg)
{
    pthread_t thread[MOST];
    int failed = 0;
    for (int k = 0; k < n; k++) {
        rank[k] = (struct rank){.end.me = k, .n = n, .patience = patience, .job = job, .arg = arg};
        pthread_create(&thread[k], NULL, live, &rank[k]);
    }
    for (int k = 0; k < n; k++) {
        pthread_join(thread[k], NULL);
        failed += rank[k].rc != 0;
    }
    for (int i = 0; i < MOST * MOST; i++)
        for (struct letter *l = post[i / MOST][i % MOST], *next; l; l = next)
            next = l->next, free(l);
    memset(post, 0, sizeof post);
    return failed;
}

#endif
