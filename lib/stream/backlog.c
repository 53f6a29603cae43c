#include "stream/backlog.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void mf_backlog_keep(struct mf_backlog *b, struct mf_frame *f)
{
    b->frame = mf_xrealloc(b->frame, (size_t)b->n + 1, sizeof *b->frame);
    b->frame[b->n++] = mf_frame_keep(f);
}

static void drop(struct mf_backlog *b, int n)
{
    if (n == 0)
        return;
    for (int i = 0; i < n; i++)
        mf_frame_free(b->frame[i]);
    b->n -= n;
    memmove(b->frame, b->frame + n, (size_t)b->n * sizeof *b->frame);
}

/* How many frames, from the oldest on, are of iterations before this one. */
static int before(const struct mf_backlog *b, int64_t iter)
{
    struct mf_err ignored;
    int64_t of;
    int n = 0;
    while (n < b->n && mf_frame_get_int(b->frame[n], "iter", &of, &ignored) == 0 && of < iter)
        n++;
    return n;
}

void mf_backlog_done(struct mf_backlog *b, int64_t iter)
{
    drop(b, before(b, iter));
}

struct mf_frame *const *mf_backlog_find(const struct mf_backlog *b, int64_t iter, int *n)
{
    const int first = before(b, iter);
    *n = before(b, iter + 1) - first;
    return *n ? b->frame + first : NULL;
}

void mf_backlog_release(struct mf_backlog *b)
{
    drop(b, b->n);
    free(b->frame);
    *b = (struct mf_backlog){0};
}
