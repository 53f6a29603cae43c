#include "rl/rfc.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "flow/reflow.h"
#include "rl/minibatch.h"

void mf_rfc_place(struct mf_rfc_rows *q, size_t n, size_t D, struct mf_arena *a)
{
    q->x = mf_arena_take(a, n * D, sizeof *q->x);
    q->target = mf_arena_take(a, n * D, sizeof *q->target);
    q->time = mf_arena_take(a, n, sizeof *q->time);
    q->weight = mf_arena_take(a, n, sizeof *q->weight);
    q->loss = mf_arena_take(a, n, sizeof *q->loss);
    q->rank = mf_arena_take(a, n, sizeof *q->rank);
}

unsigned mf_rfc_needs(const struct mf_ppo_opts *o)
{
    const bool success = o->rfc_mask == MF_RFC_SUCCESS_ONLY || o->rfc_mask == MF_RFC_SUCCESS_CHUNK;
    return o->rfc_coef > 0 ? MF_ROWS_ENDS | (success ? MF_ROWS_SUCCESS : 0) : 0;
}

/* ---- the mask ---- */

static int descending(const void *a, const void *b)
{
    const float x = ((const struct mf_rfc_rank *)a)->advantage, y = ((const struct mf_rfc_rank *)b)->advantage;
    return (x < y) - (x > y);
}

/* The smallest of the max(1, floor(topk n)) largest advantages. */
static float threshold(const struct mf_minibatch *b, double topk)
{
    struct mf_rfc_rank *rank = b->rfc.rank;
    size_t n = 0, at = 0;
    for (size_t i = 0; i < b->n; i++) {
        rank[i] = (struct mf_rfc_rank){b->advantage[i], b->count[i]};
        n += b->count[i];
    }
    qsort(rank, b->n, sizeof *rank, descending);
    const size_t k = (size_t)fmax(1, topk * (double)n);
    for (size_t above = rank[0].count; above < k; above += rank[at].count)
        at++;
    return rank[at].advantage;
}

static bool chosen(const struct mf_minibatch *b, const struct mf_rows *r, enum mf_rfc_mask mask, float least, size_t i)
{
    switch (mask) {
    case MF_RFC_SUCCESS_ONLY:
        return r->success[b->row[i]] & MF_ROW_SUCCEEDS;
    case MF_RFC_SUCCESS_CHUNK:
        return r->success[b->row[i]] & MF_ROW_ENDS_SO;
    case MF_RFC_ADVANTAGE_POSITIVE:
        return b->advantage[i] > 0;
    default:
        return b->advantage[i] >= least;
    }
}

double mf_rfc_choose(const struct mf_minibatch *b, const struct mf_rows *r, const struct mf_ppo_opts *o, float *weight)
{
    const enum mf_rfc_mask mask = (enum mf_rfc_mask)o->rfc_mask;
    const float least = mask == MF_RFC_ADVANTAGE_TOPK ? threshold(b, o->rfc_topk) : 0;
    double sum = 0;
    for (size_t i = 0; i < b->n; i++) {
        weight[i] = chosen(b, r, mask, least, i) ? (float)b->count[i] : 0;
        sum += (double)weight[i];
    }
    return sum;
}

/* ---- a minibatch ---- */

void mf_rfc_draw(struct mf_minibatch *b, const struct mf_rows *r, const struct mf_ppo_opts *o,
                 const struct mf_policy *p, int64_t turn)
{
    struct mf_rfc_rows *q = &b->rfc;
    const size_t D = (size_t)r->D;
    const double sum = mf_rfc_choose(b, r, o, q->weight), scale = o->rfc_coef / fmax(1, sum);
    double all = 0;
    for (size_t i = 0; i < b->n; i++) {
        const uint32_t row = b->row[i];
        struct mf_rng rng = mf_rng_at((uint64_t)o->seed, MF_RNG_REFLOW, row, (uint32_t)p->iter, (uint32_t)turn);
        mf_reflow_point(&p->spec, mf_rows_first(r, row), mf_rows_last(r, row), mf_rng_uniform(&rng), q->x + i * D,
                        q->target + i * D, &q->time[i]);
        q->weight[i] *= (float)scale;
        all += b->count[i];
    }
    q->ratio = sum / all;
}

void mf_rfc_measure(const struct mf_minibatch *b, const struct mf_ppo_opts *o, struct mf_ppo_stats *st)
{
    double loss = 0;
    for (size_t i = 0; i < b->n; i++)
        loss += (double)b->rfc.loss[i];
    st->rfc_loss += loss / o->rfc_coef;
    st->reflow_mask_ratio += b->rfc.ratio;
}
