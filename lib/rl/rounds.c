#include "rl/rounds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "stream/head.h"

enum { SLICES_MAX = 4096, AHEAD = MF_LAG_MAX + 1 };

struct pending { /* the frames of round iter, at index iter % AHEAD */
    int64_t iter;
    struct mf_frame **slice;
    int n;
    struct mf_frame *round; /* NULL: not received yet */
};

struct source {
    char src[64];
    bool here;
    struct pending pending[AHEAD];
};

struct mf_rounds {
    int lag, need, n;
    bool begun;            /* a round was consumed: `need` no longer holds */
    struct source *source; /* (n) sorted by name */
};

struct mf_rounds *mf_rounds_new(int lag, int need)
{
    struct mf_rounds *q = mf_xcalloc(1, sizeof *q);
    q->lag = lag;
    q->need = need;
    return q;
}

static void forget(struct pending *p)
{
    for (int i = 0; i < p->n; i++)
        mf_frame_free(p->slice[i]);
    free(p->slice);
    mf_frame_free(p->round);
    *p = (struct pending){.iter = -1};
}

void mf_rounds_free(struct mf_rounds *q)
{
    for (int i = 0; q && i < q->n; i++)
        for (int k = 0; k < AHEAD; k++)
            forget(&q->source[i].pending[k]);
    if (q)
        free(q->source);
    free(q);
}

static struct source *find(struct mf_rounds *q, const char *src)
{
    for (int i = 0; i < q->n; i++)
        if (!strcmp(q->source[i].src, src))
            return &q->source[i];
    return NULL;
}

static void forget_unfinished(struct source *s)
{
    for (int k = 0; k < AHEAD; k++)
        if (!s->pending[k].round)
            forget(&s->pending[k]);
}

int mf_rounds_join(struct mf_rounds *q, const char *src)
{
    struct source *s = find(q, src);
    if (!s) {
        int at = 0;
        while (at < q->n && strcmp(q->source[at].src, src) < 0)
            at++;
        q->source = mf_xrealloc(q->source, (size_t)q->n + 1, sizeof *q->source);
        memmove(q->source + at + 1, q->source + at, (size_t)(q->n++ - at) * sizeof *q->source);
        s = &q->source[at];
        *s = (struct source){.here = true};
        snprintf(s->src, sizeof s->src, "%s", src);
    }
    s->here = true;
    forget_unfinished(s);
    return !q->begun && q->need > q->n ? q->need - q->n : 0;
}

int mf_rounds_leave(struct mf_rounds *q, const char *src)
{
    struct source *s = find(q, src);
    int left = 0;
    if (!s)
        return 0;
    s->here = false;
    forget_unfinished(s);
    for (int k = 0; k < AHEAD; k++)
        left += s->pending[k].round != NULL;
    return left;
}

void mf_rounds_refuse(struct mf_rounds *q, const char *src)
{
    struct source *s = find(q, src);
    if (!s)
        return;
    for (int k = 0; k < AHEAD; k++)
        forget(&s->pending[k]);
    memmove(s, s + 1, (size_t)(q->source + q->n-- - s - 1) * sizeof *s);
}

static bool has_slice(const struct pending *p, int64_t k)
{
    struct mf_err ignored;
    int64_t is;
    for (int i = 0; i < p->n; i++)
        if (mf_frame_get_int(p->slice[i], "slice.0", &is, &ignored) == 0 && is == k)
            return true;
    return false;
}

static int add_slice(struct pending *p, struct mf_frame *f, struct mf_err *err)
{
    struct mf_err ignored;
    int64_t k;
    if (mf_frame_get_int(f, "slice.0", &k, &ignored) == 0 && has_slice(p, k))
        return 0;
    if (p->n == SLICES_MAX)
        return mf_err_set(err, MF_EFORMAT, "round %lld has more than %d slices", (long long)p->iter, SLICES_MAX);
    p->slice = mf_xrealloc(p->slice, (size_t)p->n + 1, sizeof(struct mf_frame *));
    p->slice[p->n++] = mf_frame_keep(f);
    return 0;
}

static int add_round(struct pending *p, struct mf_frame *f, struct mf_err *err)
{
    int64_t slices;
    int rc = mf_frame_get_int(f, "slices", &slices, err);
    if (rc)
        return rc;
    if (slices != p->n)
        return mf_err_set(err, MF_EFORMAT, "the frame of round %lld names %lld slices, and %d were received",
                          (long long)p->iter, (long long)slices, p->n);
    p->round = mf_frame_keep(f);
    return 0;
}

int mf_rounds_add(struct mf_rounds *q, struct mf_frame *f, int64_t due, struct mf_err *err)
{
    const char *src = "";
    int64_t iter;
    int rc = mf_frame_get_int(f, "iter", &iter, err);
    if (rc || (mf_frame_has(f, "src") && (rc = mf_frame_get_str(f, "src", &src, err))))
        return rc;
    struct source *s = find(q, src);
    if (!s && q->n != 1)
        return mf_err_set(err, MF_EFORMAT, "a frame of source '%s', which has not sent a head", src);
    s = s ? s : &q->source[0];
    if (iter < due)
        return 0; /* a collector sends a round again where it does not know that the round arrived */
    const struct pending *before = &s->pending[(iter % AHEAD + AHEAD - 1) % AHEAD];
    if (iter > due + q->lag || (iter > due && !(before->round && before->iter == iter - 1)))
        return mf_err_set(err, MF_EFORMAT,
                          "rollout %lld came where %lld was due: a round is missing, which its collector no longer has "
                          "(start that again), or the learner did not start from this stream's checkpoint",
                          (long long)iter, (long long)due);
    struct pending *p = &s->pending[iter % AHEAD];
    if (p->round)
        return 0; /* a duplicate */
    p->iter = iter;
    return mf_frame_kind(f) == MF_ROLLOUT ? add_slice(p, f, err) : add_round(p, f, err);
}

bool mf_rounds_whole(const struct mf_rounds *q, int64_t iter)
{
    bool any = false;
    for (int i = 0; i < q->n; i++) {
        const struct source *s = &q->source[i];
        const struct pending *p = &s->pending[iter % AHEAD];
        bool in = p->round && p->iter == iter;
        if (s->here && !in)
            return false;
        any |= in;
    }
    return any && (q->begun || q->n >= q->need);
}

struct mf_round_part *mf_rounds_parts(const struct mf_rounds *q, int64_t iter, int *n)
{
    struct mf_round_part *parts = mf_xcalloc((size_t)q->n, sizeof *parts);
    *n = 0;
    for (int i = 0; i < q->n; i++) {
        const struct pending *p = &q->source[i].pending[iter % AHEAD];
        if (p->round && p->iter == iter)
            parts[(*n)++] = (struct mf_round_part){q->source[i].src, p->slice, p->n, p->round};
    }
    return parts;
}

void mf_rounds_drop(struct mf_rounds *q, int64_t iter)
{
    q->begun = true;
    for (int i = 0; i < q->n; i++)
        forget(&q->source[i].pending[iter % AHEAD]);
}
