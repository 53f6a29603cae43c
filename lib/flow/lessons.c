#include "flow/lessons.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static const double flat = 1e-4; /* a range or deviation below it is none */

static void fit_limits(const float *x, size_t n, size_t dim, double floor, float *scale, float *offset)
{
    double low = x[0], high = x[0];
    for (size_t i = 1; i < n; i++) {
        low = fmin(low, x[i * dim]);
        high = fmax(high, x[i * dim]);
    }
    double range = fmax(high - low, floor), a = range < flat ? 1 : 2 / range;
    *scale = (float)a;
    *offset = (float)(-a * (low + high) / 2);
}

static void fit_gaussian(const float *x, size_t n, size_t dim, float *scale, float *offset)
{
    double mean = 0, square = 0;
    for (size_t i = 0; i < n; i++)
        mean += x[i * dim] / (double)n;
    for (size_t i = 0; i < n; i++)
        square += (x[i * dim] - mean) * (x[i * dim] - mean) / (double)n;
    double a = sqrt(square) < flat ? 1 : 1 / sqrt(square);
    *scale = (float)a;
    *offset = (float)(-a * mean);
}

static void fit(const float *x, size_t n, size_t dim, enum mf_normalizer how, double floor, float *scale, float *offset)
{
    for (size_t j = 0; j < dim; j++) {
        scale[j] = 1, offset[j] = 0;
        if (how == MF_LIMITS)
            fit_limits(x + j, n, dim, floor, &scale[j], &offset[j]);
        else if (how == MF_GAUSSIAN)
            fit_gaussian(x + j, n, dim, &scale[j], &offset[j]);
    }
}

void mf_lessons_fit(struct mf_policy *p, const struct mf_demos *d, enum mf_normalizer how, double floor, bool actions)
{
    fit(d->obs, d->total, (size_t)d->obs_dim, how, floor, p->obs_scale, p->obs_offset);
    fit(d->actions, d->total, (size_t)d->action_dim, actions ? how : MF_IDENTITY, floor, p->action_scale,
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
