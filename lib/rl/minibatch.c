#include "rl/minibatch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/smaller.h"
#include "rl/advantage.h"
#include "rl/loss_at.h"

size_t mf_minibatch_most(size_t n_live, const struct mf_ppo_opts *o)
{
    return mf_smaller(mf_smaller((size_t)o->batch_size, n_live * (size_t)o->repeat_samples), n_live);
}

static void place_set(struct mf_minibatch *b, size_t most, struct mf_arena *a)
{
    const size_t wide = most * (size_t)b->width;
    b->row = mf_arena_take(a, most + 1, sizeof *b->row); /* order() writes one past the end */
    b->count = mf_arena_take(a, most, sizeof *b->count);
    float **const one[] = {&b->advantage, &b->value_weight, &b->entropy_weight, &b->value, &b->entropy};
    for (size_t i = 0; i < sizeof one / sizeof *one; i++)
        *one[i] = mf_arena_take(a, most, sizeof(float));
    float **const each[] = {&b->weight, &b->kl_weight, &b->correction, &b->new_logp, &b->old_logp};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        *each[i] = mf_arena_take(a, wide, sizeof(float));
}

/* The arrays for a round of n rows, n_live of them live. */
static void place(struct mf_minibatches *m, size_t n, size_t n_live, struct mf_arena *a)
{
    m->deck = mf_arena_take(a, m->deck_size, sizeof *m->deck);
    m->times = mf_arena_take(a, n, sizeof *m->times);
    for (int i = 0; i < m->sets; i++) {
        m->set[i].width = m->width;
        place_set(&m->set[i], mf_minibatch_most(n_live, m->opts), a);
        if (m->opts->rfc_coef > 0)
            mf_rfc_place(&m->set[i].rfc, mf_minibatch_most(n_live, m->opts), (size_t)m->D, a);
    }
}

static struct mf_minibatches outline(size_t n_live, int D, const struct mf_ppo_opts *o, int width, int sets)
{
    return (struct mf_minibatches){
        .opts = o, .width = width, .sets = sets, .D = D, .deck_size = n_live * (size_t)o->repeat_samples};
}

size_t mf_minibatches_memory(size_t n_live, int D, const struct mf_ppo_opts *o, int width, int sets)
{
    struct mf_minibatches m = outline(n_live, D, o, width, sets);
    place(&m, n_live, n_live, &m.arena);
    return m.arena.used;
}

int mf_minibatches_init(struct mf_minibatches *m, const struct mf_rows *r, const struct mf_ppo_opts *o, int width,
                        int sets, struct mf_err *err)
{
    if (r->n_live > UINT32_MAX / (size_t)o->repeat_samples)
        return mf_err_set(err, MF_EUSAGE, "training.repeat_samples=%lld of %zu decisions are more than can be shuffled",
                          (long long)o->repeat_samples, r->n_live);
    *m = outline(r->n_live, r->D, o, width, sets);
    place(m, r->n, r->n_live, &m->arena);
    int rc = mf_arena_alloc(&m->arena, "a minibatch and the order of an epoch", err);
    if (rc == 0)
        place(m, r->n, r->n_live, &m->arena);
    return rc;
}

void mf_minibatches_release(struct mf_minibatches *m)
{
    mf_arena_release(&m->arena);
}

void mf_minibatches_normalize_round(struct mf_minibatches *m, struct mf_rows *r)
{
    if (!m->opts->normalize_advantages || m->opts->normalize_over != MF_OVER_ROUND || r->normalized)
        return;
    for (size_t i = 0; i < r->n_live; i++)
        m->times[r->live[i]] = 1;
    mf_advantage_normalize(r->advantage, m->times, r->n);
    memset(m->times, 0, r->n * sizeof *m->times);
}

void mf_minibatches_shuffle(struct mf_minibatches *m, const struct mf_rows *r, int64_t iter, int64_t epoch)
{
    struct mf_rng rng = mf_rng_at((uint64_t)m->opts->seed, MF_RNG_SHUFFLE, 0, (uint32_t)iter, (uint32_t)epoch);
    for (size_t i = 0; i < m->deck_size; i += r->n_live)
        memcpy(m->deck + i, r->live, r->n_live * sizeof *m->deck);
    for (size_t i = m->deck_size; i > 1; i--) {
        uint32_t j = mf_rng_below(&rng, (uint32_t)i), top = m->deck[i - 1];
        m->deck[i - 1] = m->deck[j];
        m->deck[j] = top;
    }
    m->dealt = 0;
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The drawn rows in ascending order: by sorting where they are few, else by a pass over all rows. */
static void order(const struct mf_minibatches *m, struct mf_minibatch *b, const struct mf_rows *r)
{
    if (b->n < r->n / 16) {
        qsort(b->row, b->n, sizeof *b->row, ascending);
        return;
    }
    b->n = 0;
    for (size_t row = 0; row < r->n; row++) {
        b->row[b->n] = (uint32_t)row;
        b->n += m->times[row] > 0;
    }
}

/* Draws, and folds copies of a row into a count: the loss of a row times its count is the loss of its copies. */
static void deal(struct mf_minibatches *m, struct mf_minibatch *b, const struct mf_rows *r)
{
    size_t take = mf_smaller((size_t)m->opts->batch_size, m->deck_size - m->dealt);
    b->n = 0;
    for (size_t i = 0; i < take; i++) {
        uint32_t row = m->deck[m->dealt + i];
        if (m->times[row]++ == 0)
            b->row[b->n++] = row;
    }
    m->dealt += take;
    order(m, b, r);
    for (size_t i = 0; i < b->n; i++) {
        b->count[i] = m->times[b->row[i]];
        m->times[b->row[i]] = 0;
    }
}

/* The number of ratios of executed actions, which come first. Ratios of the whole chunk always count. */
static int executed(const struct mf_minibatch *b, const struct mf_rows *r, uint32_t row)
{
    return b->width == 1 || r->fpo || r->n_exec[row] >= r->C ? b->width : r->n_exec[row] * (b->width / r->C);
}

/* Ratios of actions that were not executed have weight 0, and correction 1. */
static void set_weights(struct mf_minibatch *b, const struct mf_rows *r, size_t i, double weight)
{
    const size_t W = (size_t)b->width;
    const float *correction = r->correction ? r->correction + b->row[i] * W : NULL;
    const int n = executed(b, r, b->row[i]);
    for (int e = 0; e < b->width; e++) {
        const float c = e < n && correction ? correction[e] : 1;
        b->correction[i * W + (size_t)e] = c;
        b->weight[i * W + (size_t)e] = e < n ? (float)(weight * (double)c) : 0;
    }
}

static void weigh(struct mf_minibatch *b, const struct mf_rows *r, const struct mf_ppo_opts *o)
{
    double drawn = 0, elements = 0;
    for (size_t i = 0; i < b->n; i++) {
        drawn += b->count[i];
        elements += (double)b->count[i] * executed(b, r, b->row[i]);
    }
    double live = (double)r->n_live / (double)r->n;
    for (size_t i = 0; i < b->n; i++) {
        uint32_t row = b->row[i];
        double share = o->loss_agg == MF_AGG_TRAJECTORY ? (double)r->share[row] * live : 1;
        set_weights(b, r, i, b->count[i] * share / elements);
        b->value_weight[i] = (float)(o->value_coef * b->count[i] * share / drawn);
        b->entropy_weight[i] = (float)(o->entropy_coef * b->count[i] * share / drawn);
        b->advantage[i] = r->advantage[row];
    }
}

/* The weight of an element in the KL divergence: its count times its correction, over their sum. */
static void weigh_kl(struct mf_minibatch *b)
{
    double all = 0;
    size_t W = (size_t)b->width;
    for (size_t at = 0; at < b->n * W; at++)
        all += b->weight[at] > 0 ? b->count[at / W] * (double)b->correction[at] : 0;
    for (size_t at = 0; at < b->n * W; at++)
        b->kl_weight[at] = b->weight[at] > 0 ? (float)(b->count[at / W] * (double)b->correction[at] / all) : 0;
}

struct mf_minibatch *mf_minibatches_next(struct mf_minibatches *m, const struct mf_rows *r)
{
    const struct mf_ppo_opts *o = m->opts;
    struct mf_minibatch *b = &m->set[m->turn];
    if (m->dealt == m->deck_size)
        return NULL;
    m->turn = (m->turn + 1) % m->sets;
    deal(m, b, r);
    weigh(b, r, o);
    if (o->target_kl > 0)
        weigh_kl(b);
    if (o->normalize_advantages && o->normalize_over == MF_OVER_MINIBATCH && !r->normalized)
        mf_advantage_normalize(b->advantage, b->count, b->n);
    return b;
}

void mf_minibatch_measure(const struct mf_minibatch *b, const struct mf_ppo_opts *o, struct mf_ppo_stats *st)
{
    double n = 0, k1 = 0, k3 = 0, clipped = 0, clamped = 0, sum = 0, loss = 0, gap = 0, drawn = 0, entropy = 0;
    for (size_t i = 0; i < b->n; i++) {
        drawn += b->count[i];
        entropy += b->count[i] * (double)b->entropy[i];
        for (size_t e = i * (size_t)b->width; e < (i + 1) * (size_t)b->width; e++) {
            if (!(b->weight[e] > 0))
                continue;
            double now = (double)b->new_logp[e], then = (double)b->old_logp[e],
                   count = b->count[i] * (double)b->correction[e];
            double lr = mf_log_ratio_at(now, then, o->logprob_clamp), ratio = exp(lr);
            n += count;
            k1 -= count * lr;
            k3 += count * mf_kl_at(lr);
            sum += count * ratio;
            clipped += count * (fabs(ratio - 1) > o->clip_range);
            clamped += count * (o->logprob_clamp > 0 && fabs(now) > o->logprob_clamp);
            loss += (double)b->weight[e] *
                    mf_ppo_loss_at(ratio, (double)b->advantage[i], o->clip_range, o->dual_clip, o->trust_region).loss;
            gap = fmax(gap, fabs(now - then));
            st->ratio_max = fmax(st->ratio_max, ratio);
        }
    }
    if (st->minibatches == 0)
        st->logratio_gap = fmax(st->logratio_gap, gap);
    st->policy_loss += loss;
    st->entropy += drawn > 0 ? entropy / drawn : 0;
    if (n == 0)
        return;
    st->kl_k1 += k1 / n;
    st->kl_k3 += k3 / n;
    st->ratio_mean += sum / n;
    st->clip_fraction += clipped / n;
    st->clamped_fraction += clamped / n;
}

void mf_minibatch_value_loss(const struct mf_minibatch *b, const struct mf_rows *r, const struct mf_ppo_opts *o,
                             struct mf_ppo_stats *st)
{
    double loss = 0, drawn = 0;
    for (size_t i = 0; i < b->n; i++) {
        double target = (double)r->returns[b->row[i]], old = (double)r->values[b->row[i]], v = (double)b->value[i];
        loss += b->count[i] * mf_value_loss_at(v, target, old, o->value_clip, o->huber_delta).loss;
        drawn += b->count[i];
    }
    st->value_loss += drawn > 0 ? loss / drawn : 0;
}
