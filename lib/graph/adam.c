/* adam.c - the optimiser, by slices: the same numbers for any number of threads. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "graph/plan.h"

enum { SLICE = 16384 };

/* A slice lies within one parameter, so that it has one group. */
struct slice {
    enum mf_group group;
    size_t at, n;
};

struct slices {
    int n;
    struct slice *s;
};

static struct slices cut(const struct mf_params *ps)
{
    struct slices c = {0};
    for (int i = 0; i < ps->n; i++)
        c.n += (int)(((size_t)ps->p[i].rows * (size_t)ps->p[i].cols + SLICE - 1) / SLICE);
    c.s = mf_xcalloc((size_t)c.n, sizeof *c.s);
    struct slice *s = c.s;
    for (int i = 0; i < ps->n; i++) {
        size_t size = (size_t)ps->p[i].rows * (size_t)ps->p[i].cols;
        for (size_t at = 0; at < size; at += SLICE)
            *s++ = (struct slice){ps->p[i].group, ps->p[i].at + at, size - at < SLICE ? size - at : SLICE};
    }
    return c;
}

int mf_adam_init(struct mf_adam *a, const struct mf_params *ps, struct mf_err *err)
{
    void *m, *v;
    *a = (struct mf_adam){.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    if (!ps->value)
        return 0;
    int rc = mf_alloc(&m, sizeof(float) * ps->size, "optimiser moments", err);
    if (rc)
        return rc;
    rc = mf_alloc(&v, sizeof(float) * ps->size, "optimiser moments", err);
    if (rc) {
        free(m);
        return rc;
    }
    a->m = m;
    a->v = v;
    return 0;
}

void mf_adam_release(struct mf_adam *a)
{
    free(a->m);
    free(a->v);
    *a = (struct mf_adam){0};
}

struct norms {
    struct slices c;
    const float *grads;
    double *square; /* by slice */
};

static void norm_slice(void *arg, int i)
{
    struct norms *x = arg;
    const float *g = x->grads + x->c.s[i].at;
    double sum[8] = {0}; /* eight chains in a fixed order, for the vector unit */
    size_t n = x->c.s[i].n, j = 0;
    for (; j + 8 <= n; j += 8)
        for (int k = 0; k < 8; k++)
            sum[k] += (double)g[j + (size_t)k] * (double)g[j + (size_t)k];
    for (; j < n; j++)
        sum[0] += (double)g[j] * (double)g[j];
    x->square[i] = ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
}

void mf_grad_norms(struct mf_engine *e, const struct mf_params *ps, const float *grads, double norm[MF_GROUPS + 1])
{
    struct norms x = {cut(ps), grads, NULL};
    x.square = mf_xcalloc((size_t)x.c.n, sizeof *x.square);
    mf_engine_each(e, x.c.n, norm_slice, &x);
    for (int i = 0; i <= MF_GROUPS; i++)
        norm[i] = 0.0;
    for (int i = 0; i < x.c.n; i++) {
        norm[x.c.s[i].group] += x.square[i];
        if (x.c.s[i].group != MF_GROUP_BUFFER)
            norm[MF_GROUPS] += x.square[i];
    }
    for (int i = 0; i <= MF_GROUPS; i++)
        norm[i] = sqrt(norm[i]);
    free(x.square);
    free(x.c.s);
}

struct step {
    struct slices c;
    struct mf_adam *a;
    float *value;
    const float *grads;
    const double *lr, *scale;
};

static void adam_slice(void *arg, int i)
{
    struct step *x = arg;
    enum mf_group group = x->c.s[i].group;
    if (group == MF_GROUP_BUFFER || x->lr[group] <= 0.0)
        return;
    const struct mf_adam *a = x->a;
    double steps = (double)a->step[group];
    float b1 = (float)a->beta1, b2 = (float)a->beta2, scale = (float)x->scale[group], eps = (float)a->eps;
    float c1 = (float)(1.0 - a->beta1), c2 = (float)(1.0 - a->beta2);
    float rate = (float)(x->lr[group] / (1.0 - pow(a->beta1, steps)));
    float root = (float)(1.0 / sqrt(1.0 - pow(a->beta2, steps)));
    float keep = (float)(1.0 - x->lr[group] * a->weight_decay);
    float *restrict p = x->value + x->c.s[i].at, *restrict m = a->m + x->c.s[i].at, *restrict v = a->v + x->c.s[i].at;
    const float *restrict g = x->grads + x->c.s[i].at;
    for (size_t j = 0; j < x->c.s[i].n; j++) {
        float d = g[j] * scale;
        m[j] = b1 * m[j] + c1 * d;
        v[j] = b2 * v[j] + c2 * d * d;
        p[j] = keep * p[j] - rate * m[j] / (sqrtf(v[j]) * root + eps);
    }
}

void mf_adam_step(struct mf_engine *e, struct mf_adam *a, struct mf_params *ps, const float *grads,
                  const double lr[MF_GROUPS], const double scale[MF_GROUPS])
{
    struct step x = {cut(ps), a, ps->value, grads, lr, scale};
    for (int i = 0; i < MF_GROUPS; i++)
        a->step[i] += i != MF_GROUP_BUFFER && lr[i] > 0.0;
    mf_engine_each(e, x.c.n, adam_slice, &x);
    free(x.c.s);
    mf_params_touch(ps);
}

struct ema {
    struct slices c;
    const float *value;
    float *ema, decay, rest;
    enum mf_group group;
};

static void ema_slice(void *arg, int i)
{
    struct ema *x = arg;
    if (x->c.s[i].group != x->group)
        return;
    float *restrict to = x->ema + x->c.s[i].at;
    const float *restrict from = x->value + x->c.s[i].at;
    for (size_t j = 0; j < x->c.s[i].n; j++)
        to[j] = x->decay * to[j] + x->rest * from[j];
}

void mf_ema_step(struct mf_engine *e, const struct mf_params *ps, enum mf_group group, float *ema, double decay)
{
    struct ema x = {cut(ps), ps->value, ema, (float)decay, (float)(1.0 - decay), group};
    mf_engine_each(e, x.c.n, ema_slice, &x);
    free(x.c.s);
}
