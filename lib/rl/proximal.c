#include "rl/proximal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dev/device.h"
#include "flow/score.h"
#include "ranks/ranks.h"
#include "rl/loss_at.h"

struct scores {
    uint32_t *row; /* (n_live) the live rows, ordered by rank where ranks share out observations */
    float *now;    /* (n_live, E) their log-probabilities by the current weights */
};

static void release(struct scores *s)
{
    free(s->row);
    free(s->now);
}

static int alloc(void *to, size_t n, size_t size, struct mf_err *err)
{
    return mf_alloc(to, n * size, "the log-probabilities of a round", err);
}

/* first[k] .. first[k + 1]: those whose observations rank k has. The caller frees it. */
static size_t *order(const struct mf_rows *r, uint32_t *row)
{
    const int ranks = r->ranks ? r->ranks : 1;
    size_t *first = mf_xcalloc((size_t)ranks + 2, sizeof *first), *next = first + 1;
    for (size_t i = 0; i < r->n_live; i++)
        next[1 + (r->ranks ? r->home[r->live[i]] : 0)]++;
    for (int k = 0; k < ranks; k++)
        next[k + 1] += next[k];
    for (size_t i = 0; i < r->n_live; i++)
        row[next[r->ranks ? r->home[r->live[i]] : 0]++] = r->live[i];
    return first;
}

static int run(struct mf_engine *e, struct mf_policy *p, const struct mf_rows *r, const uint32_t *row, size_t n,
               float *now, struct mf_err *err)
{
    struct mf_graph *g = mf_graph_new(&p->params);
    struct mf_plan *plan = NULL;
    struct mf_score s;
    mf_score_build(g, p, &s);
    int rc = mf_plan_new(&plan, e, g, &(struct mf_plan_opts){.backward = false}, err);
    if (rc == 0) {
        mf_score_set(plan, &s, p);
        struct mf_feed feed[MF_ROW_FEEDS];
        const int n_feeds = mf_rows_feed(r, &s, feed);
        const struct mf_fetch fetch = {.value = s.logprobs, .base = now, .stride = (size_t)r->E};
        const struct mf_batch batch = {
            .n = n, .index = row, .feed = feed, .n_feeds = n_feeds, .fetch = &fetch, .n_fetches = 1};
        rc = mf_plan_run(plan, &batch, err);
    }
    mf_plan_free(plan);
    mf_graph_free(g);
    return rc;
}

/* A rank scores the rows whose observations it has, and tells the others. The caller releases *to, also after an
 * error. */
static int score(struct mf_engine *e, struct mf_policy *p, const struct mf_rows *r, struct scores *to,
                 struct mf_err *err)
{
    const size_t E = (size_t)r->E;
    int rc;
    if ((rc = alloc(&to->row, r->n_live, sizeof *to->row, err)) ||
        (rc = alloc(&to->now, r->n_live, E * sizeof *to->now, err)))
        return rc;
    size_t *first = order(r, to->row), at = first[r->rank];
    rc = run(e, p, r, to->row + at, first[r->rank + 1] - at, to->now + at * E, err);
    if (rc == 0 && r->ranks && (rc = mf_ranks_await(mf_engine_ranks(e), err)) == 0)
        rc = mf_ranks_gather(mf_engine_ranks(e), to->now, E * sizeof *to->now, first, err);
    free(first);
    return rc;
}

int mf_recompute(struct mf_engine *e, struct mf_policy *p, struct mf_rows *r, struct mf_err *err)
{
    const size_t E = (size_t)r->E;
    struct scores s = {0};
    int rc = score(e, p, r, &s, err);
    for (size_t i = 0; rc == 0 && i < r->n_live; i++)
        memcpy(r->old + s.row[i] * E, s.now + i * E, E * sizeof *s.now);
    release(&s);
    return rc;
}

/* One ratio, of n elements: replaces old by the proximal log-probabilities. Returns log p/b, both clamped as in the
 * loss. */
static double interpolate(float *old, const float *now, size_t n, const struct mf_ppo_opts *o, double *gap)
{
    double b = 0, p = 0, c = 0;
    for (size_t i = 0; i < n; i++) {
        b += (double)old[i];
        c += (double)now[i];
        old[i] = (float)((double)old[i] + o->proximal * ((double)now[i] - (double)old[i]));
        p += (double)old[i];
    }
    *gap = fmax(*gap, fabs(c - b));
    return mf_within(p, o->logprob_clamp) - mf_within(b, o->logprob_clamp);
}

int mf_proximal(struct mf_engine *e, struct mf_policy *p, struct mf_rows *r, const struct mf_ppo_opts *o, int width,
                struct mf_ppo_stats *st, struct mf_err *err)
{
    const size_t E = (size_t)r->E, W = (size_t)width, each = E / W;
    struct scores s = {0};
    int rc = alloc(&r->correction, r->n, W * sizeof *r->correction, err);
    if (rc == 0)
        rc = score(e, p, r, &s, err);
    for (size_t i = 0; rc == 0 && i < r->n_live; i++) {
        size_t row = s.row[i];
        for (size_t w = 0; w < W; w++) {
            double c =
                exp(interpolate(r->old + row * E + w * each, s.now + i * E + w * each, each, o, &st->logratio_gap));
            r->correction[row * W + w] = (float)c;
            st->correction_max = fmax(st->correction_max, c);
        }
    }
    release(&s);
    return rc;
}

int mf_proximal_memory(struct mf_engine *e, struct mf_policy *p, size_t n, struct mf_memory *to, struct mf_err *err)
{
    struct mf_graph *g = mf_graph_new(&p->params);
    struct mf_plan *plan = NULL;
    struct mf_score s;
    mf_score_build(g, p, &s);
    int rc = mf_plan_new(&plan, e, g, &(struct mf_plan_opts){.backward = false}, err);
    if (rc == 0)
        mf_plan_memory(plan, n, to);
    to->of[MF_MEMORY_ROWS] += 2 * 4 * (double)n * mf_logprob_width(&p->spec);
    mf_plan_free(plan);
    mf_graph_free(g);
    return rc;
}
