#include "rl/proximal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dev/device.h"
#include "flow/score.h"
#include "rl/loss_at.h"

static int alloc(float **to, size_t n, struct mf_err *err)
{
    return mf_alloc((void **)to, n * sizeof **to, "the log-probabilities of a round", err);
}

/* *now (n_live, E): log-probabilities of the live rows by the current weights. The caller frees it. */
static int score(struct mf_engine *e, struct mf_policy *p, const struct mf_rows *r, float **now, struct mf_err *err)
{
    struct mf_graph *g = mf_graph_new(&p->params);
    struct mf_plan *plan = NULL;
    struct mf_score s;
    mf_score_build(g, p, &s);
    int rc = mf_plan_new(&plan, e, g, &(struct mf_plan_opts){.backward = false}, err);
    if (rc == 0 && (rc = alloc(now, r->n_live * (size_t)r->E, err)) == 0) {
        mf_score_set(plan, &s, p);
        struct mf_feed feed[MF_ROW_FEEDS];
        const int n_feeds = mf_rows_feed(r, &s, feed);
        const struct mf_fetch fetch = {.value = s.logprobs, .base = *now, .stride = (size_t)r->E};
        const struct mf_batch batch = {
            .n = r->n_live, .index = r->live, .feed = feed, .n_feeds = n_feeds, .fetch = &fetch, .n_fetches = 1};
        rc = mf_plan_run(plan, &batch, err);
    }
    mf_plan_free(plan);
    mf_graph_free(g);
    return rc;
}

int mf_recompute(struct mf_engine *e, struct mf_policy *p, struct mf_rows *r, struct mf_err *err)
{
    const size_t E = (size_t)r->E;
    float *now = NULL;
    int rc = score(e, p, r, &now, err);
    for (size_t i = 0; rc == 0 && i < r->n_live; i++)
        memcpy(r->old + r->live[i] * E, now + i * E, E * sizeof *now);
    free(now);
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
    float *now = NULL;
    int rc = alloc(&r->correction, r->n * W, err);
    if (rc == 0)
        rc = score(e, p, r, &now, err);
    for (size_t i = 0; rc == 0 && i < r->n_live; i++) {
        size_t row = r->live[i];
        for (size_t w = 0; w < W; w++) {
            double c =
                exp(interpolate(r->old + row * E + w * each, now + i * E + w * each, each, o, &st->logratio_gap));
            r->correction[row * W + w] = (float)c;
            st->correction_max = fmax(st->correction_max, c);
        }
    }
    free(now);
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
