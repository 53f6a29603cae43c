#include "ranks/ranks.h"

#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/smaller.h"
#include "ranks/ranks_priv.h"

static const double LATE = 10;     /* s */
static const double AWAKE = 1e-3;  /* s of waiting before a rank sleeps between two polls .. */
static const double ASLEEP = 1e-3; /* .. for so long, at most */

int mf_ranks_count(const struct mf_ranks *r)
{
    return r ? r->n : 1;
}

int mf_ranks_me(const struct mf_ranks *r)
{
    return r ? r->me : 0;
}

const char *mf_ranks_host(const struct mf_ranks *r, int rank)
{
    return r->host[rank];
}

double mf_ranks_patience(const struct mf_ranks *r)
{
    return r->patience;
}

size_t mf_ranks_first(const struct mf_ranks *r, int k, size_t n)
{
    return n * (size_t)k / (size_t)mf_ranks_count(r);
}

/* ---- messages ---- */

static void note(struct mf_ranks *r, int peer)
{
    if (r->begun == r->room) {
        r->room = r->room ? 2 * r->room : 64;
        r->peer = mf_xrealloc(r->peer, r->room, sizeof *r->peer);
        r->ended = mf_xrealloc(r->ended, r->room, sizeof *r->ended);
    }
    r->peer[r->begun] = peer;
    r->ended[r->begun++] = false;
}

static int begin_send(struct mf_ranks *r, int to, const void *bytes, size_t n, struct mf_err *err)
{
    int rc = 0;
    for (size_t at = 0, m; rc == 0 && at < n; at += m) {
        m = mf_smaller(n - at, MF_TRANSPORT_MOST);
        rc = r->t->send(r->self, to, (const char *)bytes + at, m, err);
        note(r, to);
    }
    return rc;
}

static int begin_receive(struct mf_ranks *r, int from, void *bytes, size_t n, struct mf_err *err)
{
    int rc = 0;
    for (size_t at = 0, m; rc == 0 && at < n; at += m) {
        m = mf_smaller(n - at, MF_TRANSPORT_MOST);
        rc = r->t->receive(r->self, from, (char *)bytes + at, m, err);
        note(r, from);
    }
    return rc;
}

/* ---- waiting ---- */

static void rest(enum mf_ranks_wait why, double waited)
{
    if (why == MF_RANKS_FOR_DATA || waited < AWAKE) {
        sched_yield();
        return;
    }
    const double s = fmin(waited / 8, ASLEEP);
    nanosleep(&(struct timespec){.tv_nsec = (long)(s * 1e9)}, NULL);
}

/* The first rank whose message has not ended. */
static int late_one(const struct mf_ranks *r)
{
    size_t i = 0;
    while (r->ended[i])
        i++;
    return r->peer[i];
}

static int look_at_time(struct mf_ranks *r, enum mf_ranks_wait why, double waited, bool *warned, struct mf_err *err)
{
    const double most = why == MF_RANKS_FOR_FILES ? MF_RANKS_FILES * r->patience : r->patience;
    if (waited > most) {
        const int k = late_one(r);
        return mf_err_set(err, MF_EIO,
                          "rank %d on %s is late by %g s at minibatch %lld of this start: it hangs, or needs more time "
                          "(ranks_timeout=%g); the run resumes from its checkpoint",
                          k, r->host[k], most, (long long)r->minibatches, r->patience);
    }
    if (waited > LATE && !*warned) {
        const int k = late_one(r);
        mf_log(MF_LOG_WARN, "rank %d on %s is late: the others have waited for %.0f s at minibatch %lld of this start",
               k, r->host[k], waited, (long long)r->minibatches);
        *warned = true;
    }
    return 0;
}

int mf_ranks_wait(struct mf_ranks *r, enum mf_ranks_wait why, struct mf_err *err)
{
    const double start = mf_now();
    bool warned = false;
    int rc = 0, left;
    while ((left = r->t->poll(r->self, r->ended, err)) > 0 && rc == 0) {
        const double waited = mf_now() - start;
        rest(why, waited);
        if (why != MF_RANKS_FOR_RANK_0)
            rc = look_at_time(r, why, waited, &warned, err);
    }
    r->begun = 0;
    return left < 0 ? left : rc;
}

/* ---- verbs ---- */

int mf_ranks_broadcast(struct mf_ranks *r, void *bytes, size_t n, struct mf_err *err)
{
    int rc = 0;
    if (!r)
        return 0;
    if (r->me)
        rc = begin_receive(r, 0, bytes, n, err);
    for (int k = 1; r->me == 0 && rc == 0 && k < r->n; k++)
        rc = begin_send(r, k, bytes, n, err);
    return rc ? rc : mf_ranks_wait(r, r->me ? MF_RANKS_FOR_RANK_0 : MF_RANKS_FOR_OTHERS, err);
}

/* Peers in another order in each rank, so that not all send to the same one. */
int mf_ranks_begin_gather(struct mf_ranks *r, void *array, size_t item, const size_t *first, struct mf_err *err)
{
    char *base = array;
    int rc = 0;
    for (int d = 1; rc == 0 && d < r->n; d++) {
        const int from = (r->me + r->n - d) % r->n;
        rc = begin_receive(r, from, base + first[from] * item, (first[from + 1] - first[from]) * item, err);
    }
    for (int d = 1; rc == 0 && d < r->n; d++)
        rc = begin_send(r, (r->me + d) % r->n, base + first[r->me] * item, (first[r->me + 1] - first[r->me]) * item,
                        err);
    return rc;
}

int mf_ranks_gather_for(struct mf_ranks *r, void *array, size_t item, const size_t *first, enum mf_ranks_wait why,
                        struct mf_err *err)
{
    int rc = mf_ranks_begin_gather(r, array, item, first, err);
    return rc ? rc : mf_ranks_wait(r, why, err);
}

int mf_ranks_gather(struct mf_ranks *r, void *array, size_t item, const size_t *first, struct mf_err *err)
{
    return r ? mf_ranks_gather_for(r, array, item, first, MF_RANKS_FOR_DATA, err) : 0;
}

int mf_ranks_collect(struct mf_ranks *r, void *array, size_t item, const size_t *first, struct mf_err *err)
{
    char *base = array;
    int rc = 0;
    if (!r)
        return 0;
    if (r->me)
        rc = begin_send(r, 0, base + first[r->me] * item, (first[r->me + 1] - first[r->me]) * item, err);
    for (int k = 1; r->me == 0 && rc == 0 && k < r->n; k++)
        rc = begin_receive(r, k, base + first[k] * item, (first[k + 1] - first[k]) * item, err);
    return rc ? rc : mf_ranks_wait(r, r->me ? MF_RANKS_FOR_RANK_0 : MF_RANKS_FOR_OTHERS, err);
}

int mf_ranks_exchange(struct mf_ranks *r, float *matrix, size_t stride, const size_t *row, const size_t *at,
                      const size_t *column, struct mf_err *err)
{
    int rc = 0;
    if (!r)
        return 0;
    const int me = r->me;
    for (int d = 1; d < r->n; d++) {
        const int from = (me + r->n - d) % r->n;
        for (size_t i = row[from]; rc == 0 && i < row[from + 1]; i++)
            rc = begin_receive(r, from, matrix + at[i] * stride + column[me],
                               (column[me + 1] - column[me]) * sizeof *matrix, err);
    }
    for (int d = 1; d < r->n; d++) {
        const int to = (me + d) % r->n;
        for (size_t i = row[me]; rc == 0 && i < row[me + 1]; i++)
            rc = begin_send(r, to, matrix + at[i] * stride + column[to], (column[to + 1] - column[to]) * sizeof *matrix,
                            err);
    }
    return rc ? rc : mf_ranks_wait(r, MF_RANKS_FOR_DATA, err);
}

int mf_ranks_scatter(struct mf_ranks *r, const void *all, void *mine, size_t item, const size_t *first,
                     struct mf_err *err)
{
    const char *base = all;
    int rc = 0;
    if (!r)
        return 0;
    if (r->me)
        rc = begin_receive(r, 0, mine, (first[r->me + 1] - first[r->me]) * item, err);
    else
        memcpy(mine, base, first[1] * item);
    for (int k = 1; r->me == 0 && rc == 0 && k < r->n; k++)
        rc = begin_send(r, k, base + first[k] * item, (first[k + 1] - first[k]) * item, err);
    return rc ? rc : mf_ranks_wait(r, MF_RANKS_FOR_DATA, err);
}

int mf_ranks_swap(struct mf_ranks *r, const void *gives, const size_t *to, void *gets, const size_t *from,
                  struct mf_err *err)
{
    int rc = 0;
    if (!r)
        return 0;
    for (int d = 1; rc == 0 && d < r->n; d++) {
        const int k = (r->me + r->n - d) % r->n;
        rc = begin_receive(r, k, (char *)gets + from[k], from[k + 1] - from[k], err);
    }
    for (int d = 1; rc == 0 && d < r->n; d++) {
        const int k = (r->me + d) % r->n;
        rc = begin_send(r, k, (const char *)gives + to[k], to[k + 1] - to[k], err);
    }
    return rc ? rc : mf_ranks_wait(r, MF_RANKS_FOR_DATA, err);
}

/* ---- opening ---- */

int mf_ranks_on(struct mf_ranks **out, const struct mf_transport *t, void *self, int n, int me, double patience,
                struct mf_err *err)
{
    struct mf_ranks *r = mf_xcalloc(1, sizeof *r);
    *r = (struct mf_ranks){.n = n, .me = me, .patience = patience, .t = t, .self = self};
    r->state = mf_xcalloc((size_t)n, sizeof *r->state);
    r->each = mf_xcalloc((size_t)n + 1, sizeof *r->each);
    r->host = mf_xcalloc((size_t)n, sizeof *r->host);
    for (int k = 0; k <= n; k++)
        r->each[k] = (size_t)k;
    gethostname(r->host[me], MF_RANKS_HOST - 1);
    int rc = mf_ranks_gather_for(r, r->host, sizeof *r->host, r->each, MF_RANKS_FOR_OTHERS, err);
    if (rc)
        mf_ranks_close(r, 1);
    else
        *out = r;
    return rc;
}

/* All leave together. Rank 0 may have to write before. */
static int leave(struct mf_ranks *r, struct mf_err *err)
{
    int32_t done = 1;
    int rc = r->me ? begin_send(r, 0, &done, sizeof done, err) : 0;
    for (int k = 1; r->me == 0 && rc == 0 && k < r->n; k++)
        rc = begin_receive(r, k, &r->state[k].code, sizeof done, err);
    if (rc == 0)
        rc = mf_ranks_wait(r, r->me ? MF_RANKS_FOR_RANK_0 : MF_RANKS_FOR_OTHERS, err);
    return rc ? rc : mf_ranks_broadcast(r, &done, sizeof done, err);
}

void mf_ranks_close(struct mf_ranks *r, int status)
{
    struct mf_err err;
    if (!r)
        return;
    if (status == 0 && leave(r, &err)) {
        if (*err.text) /* else another rank has logged it */
            mf_log(MF_LOG_ERROR, "all is saved, but %s", err.text);
        status = 1;
    }
    r->t->close(r->self, status, r->patience);
    free(r->peer);
    free(r->ended);
    free(r->state);
    free(r->each);
    free(r->host);
    free(r);
}
