/* Which episodes a round reports on: by when they began, whatever their lengths. */
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "rl/episodes.h"
#include "tap.h"

enum { N = 50, ROUND = 8, SHORT = 10, LONG = 100 };

static struct mf_err err;

struct world {
    struct mf_episodes q;
    int clock[N], length[N], played[N];
    struct mf_tally first; /* of each environment's first episode, as drawn */
    int64_t ended;
};

/* 42 % succeed, early; failures run to the limit. */
static void draw(struct world *w, int n)
{
    struct mf_rng g = mf_rng_at(3, MF_RNG_TEST, (uint32_t)n, (uint32_t)w->played[n], 0);
    w->length[n] = mf_rng_below(&g, 100) < 42 ? SHORT : LONG;
    w->clock[n] = 0;
    if (w->played[n]++ == 0)
        mf_tally_add(&w->first, 1, w->length[n], w->length[n] == SHORT);
}

static void decide(struct world *w)
{
    for (int n = 0; n < N; n++)
        if (++w->clock[n] == w->length[n]) {
            mf_episodes_end(&w->q, n, 1, w->length[n], w->length[n] == SHORT);
            w->ended++;
            draw(w, n);
        }
    mf_episodes_tick(&w->q);
}

static struct mf_tally play_round(struct world *w)
{
    for (int t = 0; t < ROUND; t++)
        decide(w);
    return mf_episodes_count(&w->q);
}

static void first_rounds(void)
{
    struct world w = {.ended = 0};
    struct mf_tally t = {.n = 0}, all = {.n = 0};
    bool early = false;
    if (mf_episodes_init(&w.q, N, &err))
        abort();
    for (int n = 0; n < N; n++)
        draw(&w, n);
    for (int i = 0; i < LONG / ROUND; i++)
        early |= play_round(&w).n > 0;
    ok(!early && w.ended > 30, "%d ended early, and say nothing yet", (int)w.ended);
    t = play_round(&w);
    ok(t.n == N && t.success == w.first.success && t.length == w.first.length && t.ret == N,
       "the first report is of every first episode: %d of %d succeeded", (int)t.success, (int)t.n);
    for (int i = 0; i < 400; i++) {
        t = play_round(&w);
        all.n += t.n, all.success += t.success;
    }
    const double rate = (double)all.success / (double)all.n;
    ok(fabs(rate - .42) < .03, "and of thousands: %.3f", rate);
    ok(all.n + N + (int64_t)w.q.n_ended == w.ended, "each is counted once, or waits");

    /* saved and loaded, it goes on alike */
    struct mf_episodes back;
    const size_t size = mf_episodes_size(&w.q);
    char *bytes = calloc(1, size + 1);
    mf_episodes_save(&w.q, bytes);
    if (mf_episodes_init(&back, N, &err))
        abort();
    ok(mf_episodes_load(&back, bytes, size + 1) == size && back.now == w.q.now && back.n_ended == w.q.n_ended &&
           !memcmp(back.began, w.q.began, N * sizeof *back.began) &&
           !memcmp(back.ended, w.q.ended, back.n_ended * sizeof *back.ended),
       "bytes and back");
    ok(mf_episodes_load(&back, bytes, size - 1) == 0 && mf_episodes_load(&back, bytes, 8) == 0, "cut ones are refused");
    ((int64_t *)(void *)bytes)[1] = INT64_MAX / 2;
    ok(mf_episodes_load(&back, bytes, size) == 0, "and those that lie about how many there are");
    free(bytes);
    mf_episodes_release(&back);
    mf_episodes_release(&w.q);
}

/* An episode that a server lost is not counted, and delays no other. */
static void void_episode(void)
{
    struct mf_episodes q;
    if (mf_episodes_init(&q, 2, &err))
        abort();
    mf_episodes_end(&q, 0, 1, 1, true);
    mf_episodes_tick(&q);
    ok(mf_episodes_count(&q).n == 0, "one waits for its neighbour, which began with it");
    mf_episodes_begin(&q, 1);
    mf_episodes_tick(&q);
    struct mf_tally t = mf_episodes_count(&q);
    ok(t.n == 1 && t.success == 1, "until that one is void");
    mf_episodes_release(&q);
}

int main(void)
{
    first_rounds();
    void_episode();
    return done();
}
