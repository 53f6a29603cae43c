/* step.c - norms, veto, clipping, AdamW and the average, by slices: the same numbers for any number of threads. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "cpu/program.h"
#include "dev/adamw.h"

enum { SLICE = 16384 };

/* Part of one trained parameter, so that it belongs to one group. */
struct slice {
    const struct mf_piece *of;
    size_t at, n;
};

struct stepping {
    int n;
    struct slice *slice;
    double *square; /* by slice */
    const struct mf_step *step;
    const float *grads;
    float *weights;
    double scale[MF_DEVICE_GROUPS];
};

static void cut(struct stepping *x, const struct mf_listing *l)
{
    for (int i = 0; i < l->n_pieces; i++)
        x->n += l->piece[i].trained ? (int)((l->piece[i].floats + SLICE - 1) / SLICE) : 0;
    struct slice *s = x->slice = mf_xcalloc((size_t)x->n, sizeof *s);
    for (int i = 0; i < l->n_pieces; i++) {
        const struct mf_piece *of = &l->piece[i];
        for (size_t at = 0; of->trained && at < of->floats; at += SLICE)
            *s++ = (struct slice){of, of->at + at, of->floats - at < SLICE ? of->floats - at : SLICE};
    }
}

static void square_slice(void *arg, int i)
{
    struct stepping *x = arg;
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

static void find_norms(struct mf_program *p, struct stepping *x, struct mf_verdict *v)
{
    x->square = mf_xcalloc((size_t)x->n, sizeof *x->square);
    mf_workers_each(p->dev->workers, x->n, square_slice, x);
    for (int i = 0; i < x->n; i++) {
        v->norm[x->slice[i].of->group] += x->square[i];
        v->total += x->square[i];
    }
    for (int i = 0; i < MF_DEVICE_GROUPS; i++)
        v->norm[i] = sqrt(v->norm[i]);
    v->total = sqrt(v->total);
    free(x->square);
}

static void adam(const struct stepping *x, const struct slice *s)
{
    const struct mf_step *step = x->step;
    int group = s->of->group;
    const struct mf_adamw a = mf_adamw_of(step, group, step->of.step[group], x->scale[group]);
    float *restrict w = x->weights + s->at, *restrict m = step->of.m + s->at, *restrict v = step->of.v + s->at;
    const float *restrict g = x->grads + s->at;
    for (size_t j = 0; j < s->n; j++)
        mf_adamw(&a, g[j], &w[j], &m[j], &v[j]);
}

static void average(const struct stepping *x, const struct slice *s)
{
    float *restrict to = x->step->of.ema + s->at;
    const float *restrict from = x->weights + s->at;
    for (size_t j = 0; j < s->n; j++)
        to[j] = mf_average(x->step, to[j], from[j]);
}

static void step_slice(void *arg, int i)
{
    struct stepping *x = arg;
    const struct slice *s = &x->slice[i];
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

void mf_cpu_step(struct mf_program *p, const struct mf_job *j)
{
    struct mf_verdict *v = j->verdict;
    struct stepping x = {.step = j->step, .grads = p->sum, .weights = p->l->weights};
    *v = (struct mf_verdict){.veto = divergence(p, j)};
    cut(&x, p->l);
    find_norms(p, &x, v);
    v->finite = isfinite(v->total);
    p->vetoed = (p->vetoed && !j->step->first) || (j->step->veto.id && v->veto > j->step->most);
    v->vetoed = p->vetoed;
    v->stepped = v->finite && !v->vetoed;
    if (v->stepped) {
        for (int i = 0; i < MF_DEVICE_GROUPS; i++)
            j->step->of.step[i] += j->step->lr[i] > 0.0;
        for (int i = 0; i < MF_DEVICE_GROUPS; i++)
            x.scale[i] = mf_clip_scale(j->step, v->norm[i], v->total);
        mf_workers_each(p->dev->workers, x.n, step_slice, &x);
    }
    free(x.slice);
}
