/* A curve over runs and its summary, against numbers that can be worked out by hand. */
#include <stdlib.h>
#include <string.h>

#include "plot/comparison.h"
#include "plot/curve.h"
#include "plot/summary.h"
#include "tap.h"

/* A run of n iterations, `every` steps each, whose success is first, first + slope, .. */
static struct mf_history history(size_t n, double every, double first, double slope)
{
    struct mf_history h = {.n = n, .n_series = 1, .fd = -1};
    h.series = calloc(1, sizeof *h.series);
    snprintf(h.series->name, sizeof h.series->name, "rollout/success_once");
    double **const column[] = {&h.iter, &h.step, &h.time, &h.series->value};
    for (int i = 0; i < 4; i++)
        *column[i] = calloc(n, sizeof(double));
    for (size_t i = 0; i < n; i++) {
        h.iter[i] = (double)i;
        h.step[i] = every * (double)(i + 1);
        h.time[i] = 3 * (double)i;
        h.series->value[i] = first + slope * (double)i;
    }
    return h;
}

static int key_of(const char *name)
{
    int k = 0;
    while (strcmp(mf_keys[k].name, name) != 0)
        k++;
    return k;
}

/* 200 iterations whose success is 0 or 1 in turns, and the ones have three times as many episodes; in the newest ten
 * only two episodes ended at all. */
static void weighted(void)
{
    struct mf_run_log t = {.h = history(200, 10, 0, 0)};
    const struct mf_run_log *one = &t;
    const struct mf_cohort g = {.n = 1, .log = &one};
    t.h.series = realloc(t.h.series, 2 * sizeof *t.h.series);
    t.h.n_series = 2;
    struct mf_series *episodes = &t.h.series[1];
    snprintf(episodes->name, sizeof episodes->name, "rollout/episodes");
    episodes->value = calloc(200, sizeof(double));
    for (size_t i = 0; i < 200; i++) {
        t.h.series[0].value[i] = i < 190 ? (double)(i % 2) : NAN;
        episodes->value[i] = i < 190 ? i % 2 ? 30 : 10 : 0;
    }
    t.h.series[0].value[195] = 1;
    episodes->value[195] = 2;
    const struct mf_summary s = mf_summary_of(&g, &(struct mf_goal){.72, 10});
    near(s.final.mean, (2 + 4 * 10 * 0 + 5 * 30) / (2 + 4 * 10 + 5 * 30.), 1e-12,
         "at most ten iterations, each by its episodes; those without any do not count");
    ok(s.last.mean == 10 && s.episodes == 2 + 4 * 10 + 5 * 30, "with the last iteration and the number of episodes");
    ok(s.reached == 1 && s.steps.mean == 100, "also for the success that is to be reached: 150 of 200 episodes");
    mf_history_close(&t.h);
}

/* Two groups in a page's table: of two seeds, and of one run that never reached the target and has no configuration. */
static void compared(const struct mf_run_log *const *two, const struct mf_run_log *const *one)
{
    static char *text[400];
    static bool differs[400];
    struct mf_run_log told[2] = {*two[0], *two[1]};
    const struct mf_run_log *of[2] = {&told[0], &told[1]};
    struct mf_cohort g[2] = {{.label = "a<b", .n = 2, .log = (const struct mf_run_log **)of},
                             {.label = "c", .n = 1, .log = (const struct mf_run_log **)(uintptr_t)one}};
    struct mf_run_logs t = {.n_groups = 2, .group = g, .differs = differs};
    char *page;
    size_t size;
    const int clip = key_of("training.clip_range"), target = key_of("training.target_kl");
    differs[clip] = differs[target] = true;
    text[clip] = strdup(".1&2");
    told[0].text = told[1].text = text;
    FILE *to = open_memstream(&page, &size);
    mf_comparison_put(&t, &(struct mf_goal){.9, 10}, to);
    fclose(to);
    char *second = strstr(page, "#g1");
    ok(strstr(page, "<a href=\"#g0\">a&lt;b</a>") && second && strstr(second, ">c</a>"), "a row for each group");
    ok(strstr(page, ">training.clip_range=.1&amp;2<br/>training.target_kl=null</code>") != NULL &&
           strstr(second, "<code>not known</code>"),
       "with the differing keys, or that they are unknown");
    ok(strstr(page, "<td class=\"n\">1 of 2</td>") && strstr(second, "<td class=\"n\">0 of 1</td>"),
       "how many reached the success that was asked for");
    ok(strstr(
           page,
           "0.994 <span class=\"dim\">(0.950 to 1.038)</span><br/><span class=\"dim\">last 1 to 4 iterations</span>") &&
           strstr(second, "<td class=\"n\">0.500<br/><span class=\"dim\">last 1 iteration</span></td>"),
       "the mean over seeds with its range, of one run its number");
    ok(strstr(second, "last 1 iteration</span></td><td class=\"n\">-</td>") &&
           strstr(second, "0 of 1</td><td class=\"n\">-</td>"),
       "and a dash for a missing value");
    free(page);
    free(text[clip]);
}

int main(void)
{
    struct mf_run_log log[3] = {
        {.h = history(20, 1000, 0, .05)}, {.h = history(40, 500, .1, .025)}, {.h = history(10, 1000, .5, 0)}};
    const struct mf_run_log *all[3] = {&log[0], &log[1], &log[2]};
    struct mf_cohort two = {.n = 2, .log = all}, three = {.n = 3, .log = all}, late = {.n = 1, .log = &all[1]};
    struct mf_curve c;

    log[0].h.series->value[3] = NAN;
    mf_curve_of(&c, &two, "rollout/success_once", MF_AXIS_STEP);
    ok(c.runs == 2 && c.n == 19, "at the first run's points that have a value");
    near(c.x[1], 2, 0, "thousands of steps");
    near(c.mean[1], (.05 + .175) / 2, 1e-12, "the mean of both at 2000 steps, of the second its fourth point");
    near(c.low[1], .05, 1e-12, "the least");
    near(c.high[1], .175, 1e-12, "the most");
    mf_curve_release(&c);

    mf_curve_of(&c, &two, "rollout/success_once", MF_AXIS_TIME);
    near(c.mean[4], (.25 + .225) / 2, 1e-12, "over seconds");
    mf_curve_release(&c);

    log[0].h.step[19] += 400; /* within half an iteration of the other's end */
    mf_curve_of(&c, &two, "rollout/success_once", MF_AXIS_STEP);
    ok(c.n == 18, "further out than half an iteration a run is not");
    mf_curve_release(&c);
    log[0].h.step[19] -= 200;
    mf_curve_of(&c, &two, "rollout/success_once", MF_AXIS_STEP);
    ok(c.n == 19 && c.high[18] == log[1].h.series->value[39],
       "but half an iteration beyond its end it keeps its value");
    mf_curve_release(&c);

    mf_curve_of(&c, &three, "rollout/success_once", MF_AXIS_ITER);
    ok(c.runs == 3 && c.n == 9 && c.x[8] == 9, "as far as the shortest came");
    mf_curve_release(&c);
    mf_curve_of(&c, &three, "train/none", MF_AXIS_ITER);
    ok(c.runs == 0 && c.n == 0, "a metric that no run has");
    mf_curve_release(&c);
    const struct mf_cohort both[2] = {late, three};
    log[2].h.series->name[0] = 'R';
    ok(mf_cohorts_have(both, 2, "Rollout/success_once") && !mf_cohorts_have(both, 1, "Rollout/success_once"),
       "a metric that one run of the groups has");
    log[2].h.series->name[0] = 'r';

    struct mf_summary s = mf_summary_of(&three, &(struct mf_goal){.5, 10});
    const double final[3] = {.95, 1.0375, .5}, mean = (final[0] + final[1] + final[2]) / 3;
    double variance = 0;
    for (int i = 0; i < 3; i++)
        variance += (final[i] - mean) * (final[i] - mean) / 2;
    near(s.final.mean, mean, 1e-12,
         "success of the last tenth of the iterations: of the last 1 of 19, 4 of 40, 1 of 10");
    near(s.final.variance, variance, 1e-12, "its variance over seeds");
    ok(fabs(s.final.low - .5) < 1e-12 && fabs(s.final.high - 1.0375) < 1e-12, "its range");
    ok(s.last.low == 1 && s.last.high == 4 && isnan(s.episodes),
       "with the number of iterations, where episodes are not counted");
    ok(s.reached == 3, "all reached a half");
    near(s.steps.low, 10000, 0, "one with its tenth iteration, which is the first that can");
    near(s.steps.high, 16000, 0, "one with its 16th: iterations 5 to 14 have the mean .475, 6 to 15 .525");
    near(s.per_iteration.mean, 3, 1e-12, "seconds of an iteration, by the clock");
    s = mf_summary_of(&late, &(struct mf_goal){.99, 10});
    ok(s.reached == 0 && isnan(s.steps.mean) && isnan(s.final.variance), "never reached; one run has no variance");
    weighted();
    compared(all, &all[2]);
    for (int i = 0; i < 3; i++)
        mf_history_close(&log[i].h);
    return done();
}
