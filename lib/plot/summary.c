#include "plot/summary.h"

#include <math.h>

static void start(struct mf_spread *s)
{
    *s = (struct mf_spread){.mean = NAN, .low = NAN, .high = NAN, .variance = NAN};
}

/* Welford's algorithm, which avoids cancellation. */
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

/* Success over some iterations, each counted by its episodes where the run reports them. */
struct mean {
    double sum, weight;
    int n; /* iterations with a value */
};

static void take(struct mean *m, const double *v, const double *episodes, size_t i)
{
    const double w = !episodes ? 1 : episodes[i] > 0 ? episodes[i] : 0;
    if (isnan(v[i]) || w == 0)
        return;
    m->sum += w * v[i];
    m->weight += w;
    m->n++;
}

/* The iteration at which the target success was reached; n: never. */
static size_t reach(const struct mf_history *h, const double *v, const double *episodes, const struct mf_goal *t)
{
    const size_t window = (size_t)t->window;
    for (size_t end = h->n < window ? h->n : window; h->n && end <= h->n; end++) {
        struct mean m = {0};
        for (size_t i = end > window ? end - window : 0; i < end; i++)
            take(&m, v, episodes, i);
        if (m.n && m.sum / m.weight >= t->success)
            return end - 1;
    }
    return h->n;
}

/* A short run's success changes within ten iterations: no more than its last tenth is its end. */
static struct mean at_the_end(const struct mf_history *h, const double *v, const double *episodes)
{
    struct mean all = {0}, m = {0};
    for (size_t i = 0; i < h->n; i++)
        take(&all, v, episodes, i);
    const int most = all.n / 10 < 1 ? 1 : all.n / 10 < MF_LATELY ? all.n / 10 : MF_LATELY;
    for (size_t i = h->n; i-- > 0 && m.n < most;)
        take(&m, v, episodes, i);
    return m;
}

/* As the learner reports it; else by the clock. */
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

static void add_success(struct mf_summary *s, const struct mf_history *h, const struct mf_goal *t)
{
    const double *v = mf_history_find(h, "rollout/success_once"), *episodes = mf_history_find(h, "rollout/episodes");
    if (!v)
        return;
    const size_t at = reach(h, v, episodes, t);
    const struct mean last = at_the_end(h, v, episodes);
    if (at < h->n) {
        s->reached++;
        add(&s->steps, h->step[at]);
        add(&s->time, h->time[at]);
    }
    add(&s->final, last.n ? last.sum / last.weight : NAN);
    add(&s->last, last.n ? last.n : NAN);
    s->episodes += episodes ? last.weight : NAN;
}

const struct mf_bind mf_goal_binds[] = {
    {"report.success", offsetof(struct mf_goal, success)}, {"report.window", offsetof(struct mf_goal, window)}, {0}};

struct mf_summary mf_summary_of(const struct mf_cohort *g, const struct mf_goal *t)
{
    struct mf_summary s = {.reached = 0};
    struct mf_spread *const all[] = {&s.steps,      &s.time, &s.final,         &s.last,
                                     &s.iterations, &s.all,  &s.per_iteration, &s.seconds};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        start(all[i]);
    for (int i = 0; i < g->n; i++) {
        const struct mf_history *h = &g->log[i]->h;
        add_success(&s, h, t);
        add(&s.iterations, (double)h->n);
        add(&s.all, h->n ? h->step[h->n - 1] : 0);
        add(&s.per_iteration, seconds(h));
        add(&s.seconds, h->n ? h->time[h->n - 1] : NAN);
    }
    return s;
}
