#include "plot/summary.h"

#include <math.h>

static void start(struct mf_spread *s)
{
    *s = (struct mf_spread){.mean = NAN, .low = NAN, .high = NAN, .variance = NAN};
}

/* Welford's way: no sum of squares to cancel. */
static void add(struct mf_spread *s, double v)
{
    if (isnan(v))
        return;
    const double was = s->n ? s->mean : 0, squares = s->n > 1 ? s->variance * (s->n - 1) : 0;
    s->mean = was + (v - was) / ++s->n;
    s->low = fmin(s->low, v);
    s->high = fmax(s->high, v);
    s->variance = s->n > 1 ? (squares + (v - was) * (v - s->mean)) / (s->n - 1) : NAN;
}

/* Mean of the iterations [end - MF_LATELY, end) that have a value. */
static double lately(const double *v, size_t end)
{
    double sum = 0;
    int n = 0;
    for (size_t i = end > MF_LATELY ? end - MF_LATELY : 0; i < end; i++)
        if (!isnan(v[i]))
            sum += v[i], n++;
    return n ? sum / n : NAN;
}

/* The iteration after which success was there; n: never. */
static size_t reach(const struct mf_history *h, const double *v, double success)
{
    for (size_t end = h->n < MF_LATELY ? h->n : MF_LATELY; h->n && end <= h->n; end++)
        if (lately(v, end) >= success)
            return end - 1;
    return h->n;
}

/* As the learner tells it; else by the clock, which a run that was resumed has cut. */
static double seconds(const struct mf_history *h)
{
    const double *rollout = mf_history_find(h, "perf/rollout_time"), *update = mf_history_find(h, "perf/update_time");
    double sum = 0;
    int n = 0;
    for (size_t i = 0; rollout && update && i < h->n; i++)
        if (!isnan(rollout[i] + update[i]))
            sum += rollout[i] + update[i], n++;
    return n ? sum / n : h->n > 1 ? (h->time[h->n - 1] - h->time[0]) / (double)(h->n - 1) : NAN;
}

struct mf_summary mf_summary_of(const struct mf_cohort *g, double success)
{
    struct mf_summary s = {.reached = 0};
    struct mf_spread *const all[] = {&s.steps, &s.time, &s.final, &s.iterations, &s.all, &s.per_iteration};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        start(all[i]);
    for (int i = 0; i < g->n; i++) {
        const struct mf_history *h = &g->trial[i]->h;
        const double *v = mf_history_find(h, "rollout/success_once");
        const size_t at = v ? reach(h, v, success) : h->n;
        if (at < h->n) {
            s.reached++;
            add(&s.steps, h->step[at]);
            add(&s.time, h->time[at]);
        }
        add(&s.final, v ? lately(v, h->n) : NAN);
        add(&s.iterations, (double)h->n);
        add(&s.all, h->n ? h->step[h->n - 1] : 0);
        add(&s.per_iteration, seconds(h));
    }
    return s;
}
