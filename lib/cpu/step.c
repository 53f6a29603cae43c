/* step.c - norms, veto, clipping, AdamW and the average, by slices: the same numbers for any number of threads. Several
 * ranks take those of their segments, and get each other's squares and weights.
 */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/smaller.h"
#include "cpu/program.h"
#include "dev/adamw.h"
#include "ranks/ranks.h"

/* Part of one trained parameter, so that it belongs to one group. */
struct slice {
    const struct mf_piece *of;
    size_t at, n;
};

struct stepping {
    int n, first, end; /* slices; those of this rank */
    struct slice *slice;
    double *square; /* by slice */
    const struct mf_step *step;
    const float *grads;
    float *weights;
    size_t base; /* the first float of the moments and the average */
    double scale[MF_DEVICE_GROUPS];
};

static void cut(struct stepping *x, const struct mf_listing *l)
{
    for (int i = 0; i < l->n_pieces; i++)
        x->n += l->piece[i].trained ? (int)((l->piece[i].floats + MF_STEP_SLICE - 1) / MF_STEP_SLICE) : 0;
    struct slice *s = x->slice = mf_xcalloc((size_t)x->n, sizeof *s);
    for (int i = 0; i < l->n_pieces; i++) {
        const struct mf_piece *of = &l->piece[i];
        for (size_t at = 0; of->trained && at < of->floats; at += MF_STEP_SLICE)
            *s++ = (struct slice){of, of->at + at, mf_smaller(of->floats - at, MF_STEP_SLICE)};
    }
}

/* The first slice of a rank. */
static size_t first_slice(const struct stepping *x, const struct mf_listing *l, int rank)
{
    size_t i = 0;
    while (i < (size_t)x->n && x->slice[i].at < l->segment[rank])
        i++;
    return i;
}

static void square_slice(void *arg, int i)
{
    struct stepping *x = arg;
    i += x->first;
    const float *g = x->grads + x->slice[i].at;
    double sum[8] = {0}; /* eight chains in a fixed order, for the vector unit */
    size_t n = x->slice[i].n, j = 0;
    for (; j + 8 <= n; j += 8)
        for (int k = 0; k < 8; k++)
            sum[k] += (double)g[j + (size_t)k] * (double)g[j + (size_t)k];
    for (; j < n; j++)
        sum[0] += (double)g[j] * (double)g[j];
    x->square[i] = ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
}

static int find_norms(struct mf_program *p, struct stepping *x, struct mf_verdict *v, struct mf_err *err)
{
    const int ranks = mf_ranks_count(p->l->ranks), me = mf_ranks_me(p->l->ranks);
    size_t *first = mf_xcalloc((size_t)ranks + 1, sizeof *first);
    for (int k = 0; k <= ranks; k++)
        first[k] = first_slice(x, p->l, k);
    x->first = (int)first[me], x->end = (int)first[me + 1];
    x->square = mf_xcalloc((size_t)x->n, sizeof *x->square);
    mf_workers_each(p->dev->workers, x->end - x->first, square_slice, x);
    int rc = mf_ranks_gather(p->l->ranks, x->square, sizeof *x->square, first, err);
    for (int i = 0; i < x->n; i++) {
        v->norm[x->slice[i].of->group] += x->square[i];
        v->total += x->square[i];
    }
    for (int i = 0; i < MF_DEVICE_GROUPS; i++)
        v->norm[i] = sqrt(v->norm[i]);
    v->total = sqrt(v->total);
    free(x->square);
    free(first);
    return rc;
}

static void adam(const struct stepping *x, const struct slice *s)
{
    const struct mf_step *step = x->step;
    int group = s->of->group;
    const struct mf_adamw a = mf_adamw_of(step, group, step->of.step[group], x->scale[group]);
    const size_t at = s->at - x->base;
    float *restrict w = x->weights + s->at, *restrict m = step->of.m + at, *restrict v = step->of.v + at;
    const float *restrict g = x->grads + s->at;
    for (size_t j = 0; j < s->n; j++)
        mf_adamw(&a, g[j], &w[j], &m[j], &v[j]);
}

static void average(const struct stepping *x, const struct slice *s)
{
    float *restrict to = x->step->of.ema + (s->at - x->base);
    const float *restrict from = x->weights + s->at;
    for (size_t j = 0; j < s->n; j++)
        to[j] = mf_average(x->step, to[j], from[j]);
}

static void step_slice(void *arg, int i)
{
    struct stepping *x = arg;
    const struct slice *s = &x->slice[x->first + i];
    if (x->step->lr[s->of->group] > 0.0)
        adam(x, s);
    if (x->step->of.ema && (x->step->averaged >> s->of->group & 1))
        average(x, s);
}

/* The veto's sum over the samples, in order. */
static double divergence(const struct mf_program *p, const struct mf_job *j)
{
    double sum = 0;
    for (size_t i = 0; j->step->veto.id && i < j->batch->n; i++)
        sum += (double)p->veto[i];
    return sum;
}

/* The columns of the next pieces that a step moves, from piece i on, up to one that stays. Returns that piece. */
static int next_moved(const struct mf_listing *l, const struct mf_step *step, int i, size_t *first, size_t *end)
{
    *first = *end = 0;
    for (; i < l->n_pieces; i++) {
        const struct mf_piece *of = &l->piece[i];
        const bool moves = of->trained && step->lr[of->group] > 0.0;
        if (of->trained && !moves && *end)
            break;
        if (moves)
            *first = *end ? *first : of->at, *end = of->at + of->floats;
    }
    return i;
}

/* The weights of all segments, to all ranks. */
static int share_weights(const struct mf_listing *l, const struct mf_step *step, struct mf_err *err)
{
    const int n = mf_ranks_count(l->ranks);
    size_t *bound = mf_xcalloc((size_t)n + 1, sizeof *bound), first, end;
    int rc = 0;
    for (int i = 0; rc == 0 && l->ranks && i < l->n_pieces;) {
        i = next_moved(l, step, i, &first, &end);
        for (int k = 0; k <= n; k++)
            bound[k] = mf_between(l->segment[k], first, end);
        rc = mf_ranks_gather(l->ranks, l->weights, sizeof *l->weights, bound, err);
    }
    free(bound);
    return rc;
}

/* The verdict, which all ranks find alike. */
static int judge(struct mf_program *p, const struct mf_job *j, struct stepping *x, struct mf_err *err)
{
    struct mf_verdict *v = j->verdict;
    *v = (struct mf_verdict){.veto = divergence(p, j)};
    int rc = find_norms(p, x, v, err);
    v->finite = isfinite(v->total);
    p->vetoed = (p->vetoed && !j->step->first) || (j->step->veto.id && v->veto > j->step->most);
    v->vetoed = p->vetoed;
    v->stepped = v->finite && !v->vetoed;
    return rc;
}

int mf_cpu_step(struct mf_program *p, const struct mf_job *j, struct mf_err *err)
{
    const struct mf_verdict *v = j->verdict;
    struct stepping x = {
        .step = j->step, .grads = p->sum, .weights = p->l->weights, .base = p->l->segment[mf_ranks_me(p->l->ranks)]};
    cut(&x, p->l);
    int rc = judge(p, j, &x, err);
    if (rc == 0 && v->stepped) {
        for (int i = 0; i < MF_DEVICE_GROUPS; i++)
            j->step->of.step[i] += j->step->lr[i] > 0.0;
        for (int i = 0; i < MF_DEVICE_GROUPS; i++)
            x.scale[i] = mf_clip_scale(j->step, v->norm[i], v->total);
        mf_workers_each(p->dev->workers, x.end - x.first, step_slice, &x);
        rc = share_weights(p->l, j->step, err);
    }
    free(x.slice);
    return rc;
}
