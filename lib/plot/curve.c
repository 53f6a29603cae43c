#include "plot/curve.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

struct points { /* points of a run, without iterations that lack a value */
    size_t n;
    double *x, *y;
};

static struct points points_of(const struct mf_history *h, const char *series, enum mf_axis axis)
{
    const double *v = mf_history_find(h, series);
    const double *x = axis == MF_AXIS_STEP ? h->step : axis == MF_AXIS_TIME ? h->time : h->iter;
    const double unit = axis == MF_AXIS_STEP ? 1000 : 1;
    struct points p = {.x = mf_xcalloc(h->n + 1, sizeof(double)), .y = mf_xcalloc(h->n + 1, sizeof(double))};
    for (size_t i = 0; v && i < h->n; i++)
        if (isfinite(v[i]))
            p.x[p.n] = x[i] / unit, p.y[p.n++] = v[i];
    return p;
}

/* The value at x, which must not decrease from call to call; *from is the position of the last one. Runs of different
 * seeds end at different steps: a run is constant for half an iteration beyond its ends, and NaN further out. */
static double at(const struct points *p, double x, size_t *from)
{
    const size_t last = p->n - 1;
    const double half = last ? (p->x[last] - p->x[0]) / (double)last / 2 : 0;
    while (*from < last && p->x[*from + 1] <= x)
        ++*from;
    const size_t i = *from;
    if (x < p->x[i] - half || (i == last && x > p->x[i] + half))
        return NAN;
    if (x <= p->x[i] || i == last)
        return p->y[i];
    return p->y[i] + (p->y[i + 1] - p->y[i]) * (x - p->x[i]) / (p->x[i + 1] - p->x[i]);
}

static void put(struct mf_curve *c, const struct points *p, size_t *from, double x)
{
    double sum = 0, low = INFINITY, high = -INFINITY;
    for (int i = 0; i < c->runs; i++) {
        const double y = at(&p[i], x, &from[i]);
        sum += y;
        low = fmin(low, y);
        high = fmax(high, y);
    }
    if (isnan(sum))
        return; /* a run that starts later or ends earlier */
    c->x[c->n] = x;
    c->mean[c->n] = fmin(fmax(sum / c->runs, low), high);
    c->low[c->n] = low;
    c->high[c->n++] = high;
}

void mf_curve_of(struct mf_curve *c, const struct mf_cohort *g, const char *series, enum mf_axis axis)
{
    struct points *p = mf_xcalloc((size_t)g->n, sizeof *p);
    size_t *from = mf_xcalloc((size_t)g->n, sizeof *from);
    *c = (struct mf_curve){.runs = 0};
    for (int i = 0; i < g->n; i++) {
        struct points one = points_of(&g->log[i]->h, series, axis);
        p[c->runs] = one;
        c->runs += one.n > 0;
        if (!one.n)
            free(one.x), free(one.y);
    }
    const size_t most = c->runs ? p->n : 0;
    double **const column[] = {&c->x, &c->mean, &c->low, &c->high};
    for (int i = 0; i < 4; i++)
        *column[i] = mf_xcalloc(most + 1, sizeof(double));
    for (size_t i = 0; i < most; i++)
        put(c, p, from, p->x[i]);
    for (int i = 0; i < c->runs; i++)
        free(p[i].x), free(p[i].y);
    free(p);
    free(from);
}

void mf_curve_release(struct mf_curve *c)
{
    free(c->x);
    free(c->mean);
    free(c->low);
    free(c->high);
}
