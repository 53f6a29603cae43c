#include "rl/episodes.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void mf_tally_add(struct mf_tally *t, double ret, int32_t length, bool success)
{
    t->n++;
    t->ret += ret;
    t->length += length;
    t->success += success;
}

int mf_episodes_init(struct mf_episodes *q, int N, struct mf_err *err)
{
    *q = (struct mf_episodes){.N = N};
    return mf_alloc((void **)&q->began, (size_t)N * sizeof *q->began, "the environments' episodes", err);
}

void mf_episodes_release(struct mf_episodes *q)
{
    free(q->began);
    free(q->ended);
    *q = (struct mf_episodes){.N = 0};
}

static void make_room(struct mf_episodes *q, size_t n)
{
    if (n <= q->room)
        return;
    q->room = 2 * n;
    q->ended = mf_xrealloc(q->ended, q->room, sizeof *q->ended);
}

void mf_episodes_end(struct mf_episodes *q, int n, double ret, int32_t length, bool success)
{
    make_room(q, q->n_ended + 1);
    q->ended[q->n_ended++] = (struct mf_episode){q->began[n], ret, length, success};
    mf_episodes_begin(q, n);
}

void mf_episodes_begin(struct mf_episodes *q, int n)
{
    q->began[n] = q->now + 1;
}

void mf_episodes_restart(struct mf_episodes *q)
{
    for (int n = 0; n < q->N; n++)
        q->began[n] = q->now;
    q->n_ended = 0;
}

void mf_episodes_tick(struct mf_episodes *q)
{
    q->now++;
}

struct mf_tally mf_episodes_count(struct mf_episodes *q)
{
    struct mf_tally t = {.n = 0};
    int64_t open = INT64_MAX; /* start of the oldest running episode */
    size_t left = 0;
    for (int n = 0; n < q->N; n++)
        open = q->began[n] < open ? q->began[n] : open;
    for (size_t i = 0; i < q->n_ended; i++) {
        const struct mf_episode *e = &q->ended[i];
        if (e->began < open)
            mf_tally_add(&t, e->ret, e->length, e->success);
        else
            q->ended[left++] = *e;
    }
    q->n_ended = left;
    return t;
}

/* ---- now, n_ended, began, ended ---- */

size_t mf_episodes_size(const struct mf_episodes *q)
{
    return 2 * sizeof(int64_t) + (size_t)q->N * sizeof *q->began + q->n_ended * sizeof *q->ended;
}

void mf_episodes_save(const struct mf_episodes *q, void *bytes)
{
    const int64_t head[] = {q->now, (int64_t)q->n_ended};
    char *p = bytes;
    memcpy(p, head, sizeof head);
    memcpy(p += sizeof head, q->began, (size_t)q->N * sizeof *q->began);
    if (q->n_ended)
        memcpy(p + (size_t)q->N * sizeof *q->began, q->ended, q->n_ended * sizeof *q->ended);
}

size_t mf_episodes_load(struct mf_episodes *q, const void *bytes, size_t size)
{
    const char *p = bytes;
    int64_t head[2];
    const size_t fixed = sizeof head + (size_t)q->N * sizeof *q->began;
    if (size < fixed)
        return 0;
    memcpy(head, p, sizeof head);
    if (head[0] < 0 || head[1] < 0 || (uint64_t)head[1] > (size - fixed) / sizeof *q->ended)
        return 0;
    q->now = head[0];
    q->n_ended = (size_t)head[1];
    make_room(q, q->n_ended);
    memcpy(q->began, p + sizeof head, (size_t)q->N * sizeof *q->began);
    if (q->n_ended)
        memcpy(q->ended, p + fixed, q->n_ended * sizeof *q->ended);
    return mf_episodes_size(q);
}
