#include "flow/lessons.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static const double flat = 1e-4; /* a range or deviation below it is none */

struct table { /* steps, each of rows (the points of a cloud) of features */
    const float *x;
    size_t n, rows, stride, dim; /* stride: from a step to the next */
};

static void fit_limits(const struct table *t, size_t j, double floor, float *scale, float *offset)
{
    double low = t->x[j], high = t->x[j];
    for (size_t i = 0; i < t->n; i++)
        for (size_t k = 0; k < t->rows; k++) {
            low = fmin(low, t->x[i * t->stride + k * t->dim + j]);
            high = fmax(high, t->x[i * t->stride + k * t->dim + j]);
        }
    double range = fmax(high - low, floor), a = range < flat ? 1 : 2 / range;
    *scale = (float)a;
    *offset = (float)(-a * (low + high) / 2);
}

static void fit_gaussian(const struct table *t, size_t j, float *scale, float *offset)
{
    double mean = 0, square = 0, n = (double)(t->n * t->rows);
    for (size_t i = 0; i < t->n; i++)
        for (size_t k = 0; k < t->rows; k++)
            mean += t->x[i * t->stride + k * t->dim + j] / n;
    for (size_t i = 0; i < t->n; i++)
        for (size_t k = 0; k < t->rows; k++) {
            double away = t->x[i * t->stride + k * t->dim + j] - mean;
            square += away * away / n;
        }
    double a = sqrt(square) < flat ? 1 : 1 / sqrt(square);
    *scale = (float)a;
    *offset = (float)(-a * mean);
}

static void fit(const struct table *t, enum mf_normalizer how, double floor, float *scale, float *offset)
{
    for (size_t j = 0; j < t->dim; j++) {
        scale[j] = 1, offset[j] = 0;
        if (how == MF_LIMITS)
            fit_limits(t, j, floor, &scale[j], &offset[j]);
        else if (how == MF_GAUSSIAN)
            fit_gaussian(t, j, &scale[j], &offset[j]);
    }
}

/* Bytes always: 0 to 255 onto [-1, 1]. */
static void fit_bytes(size_t n, enum mf_normalizer how, float *scale, float *offset)
{
    for (size_t i = 0; i < n; i++) {
        scale[i] = how == MF_IDENTITY ? 1 : 2 / 255.0f;
        offset[i] = how == MF_IDENTITY ? 0 : -1;
    }
}

void mf_lessons_fit(struct mf_policy *p, const struct mf_demos *d, enum mf_normalizer how, double floor, bool actions)
{
    const struct mf_layout *l = &p->spec.obs;
    for (int k = 0, at = 0; k < l->n; at += mf_obs_size(&l->key[k++])) {
        const struct mf_obs *o = &l->key[k];
        size_t dim = (size_t)o->dim[mf_obs_rank(o) - 1], rows = (size_t)mf_obs_size(o) / dim;
        float *scale = p->obs_scale + at, *offset = p->obs_offset + at;
        if (o->u8)
            fit_bytes(rows * dim, how, scale, offset);
        else
            fit(&(struct table){d->obs + at, d->total, rows, (size_t)d->obs_dim, dim}, how, floor, scale, offset);
        for (size_t i = dim; i < rows * dim; i++)
            scale[i] = scale[i - dim], offset[i] = offset[i - dim];
    }
    size_t A = (size_t)d->action_dim;
    fit(&(struct table){d->actions, d->total, 1, A, A}, actions ? how : MF_IDENTITY, floor, p->action_scale,
        p->action_offset);
    p->has_normalizer = true;
}

/* Row t of the demonstration, or its first or last where t lies outside. */
static size_t row(const struct mf_demo *demo, int64_t t)
{
    int64_t last = (int64_t)demo->n - 1;
    return demo->start + (size_t)(t < 0 ? 0 : t > last ? last : t);
}

static void cut_one(const struct mf_policy *p, const struct mf_demos *d, const struct mf_demo *demo, int64_t t,
                    float *obs, float *actions)
{
    const struct mf_policy_spec *s = &p->spec;
    size_t o = (size_t)d->obs_dim, a = (size_t)d->action_dim;
    for (int i = 0; i < s->n_obs_steps; i++)
        memcpy(obs + (size_t)i * o, d->obs + row(demo, t + i + 1 - s->n_obs_steps) * o, o * sizeof *obs);
    for (int h = 0; h < s->horizon; h++) {
        const float *from = d->actions + row(demo, t + h - s->action_offset) * a;
        for (size_t j = 0; j < a; j++)
            actions[(size_t)h * a + j] = from[j] * p->action_scale[j] + p->action_offset[j];
    }
}

int mf_lessons_cut(struct mf_lessons *l, const struct mf_policy *p, const struct mf_demos *d, struct mf_err *err)
{
    size_t O = (size_t)p->spec.net.O, D = (size_t)p->spec.net.D;
    *l = (struct mf_lessons){.n = d->total};
    if (d->total > SIZE_MAX / sizeof(float) / (O > D ? O : D))
        return mf_err_set(err, MF_ENOMEM, "%zu samples of %zu numbers do not fit into memory", d->total, O + D);
    if (mf_alloc((void **)&l->obs, d->total * O * sizeof(float), "the observations of all samples", err) ||
        mf_alloc((void **)&l->actions, d->total * D * sizeof(float), "the actions of all samples", err)) {
        mf_lessons_release(l);
        return err->code;
    }
    for (size_t i = 0, at = 0; i < d->n_demos; i++)
        for (size_t t = 0; t < d->demo[i].n; t++, at++)
            cut_one(p, d, &d->demo[i], (int64_t)t, l->obs + at * O, l->actions + at * D);
    mf_policy_normalize(p, l->n, l->obs, l->obs);
    return 0;
}

void mf_lessons_release(struct mf_lessons *l)
{
    free(l->obs);
    free(l->actions);
    *l = (struct mf_lessons){0};
}
