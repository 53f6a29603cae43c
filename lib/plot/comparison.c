#include "plot/comparison.h"

#include <math.h>

#include "base/number.h"
#include "plot/html.h"
#include "plot/summary.h"

static void put_number(FILE *to, const char *fmt, double v)
{
    char text[MF_NUMBER];
    fprintf(to, "<td class=\"n\">%s</td>", mf_number(text, fmt, v));
}

/* "0.873 (0.84 to 0.91)" */
static void put_spread(FILE *to, const char *fmt, const struct mf_spread *s)
{
    char text[MF_NUMBER], low[MF_NUMBER], high[MF_NUMBER];
    fputs(mf_number(text, fmt, s->mean), to);
    if (s->high > s->low)
        fprintf(to, " <span class=\"dim\">(%s to %s)</span>", mf_number(low, fmt, s->low),
                mf_number(high, fmt, s->high));
}

static void put_spread_cell(FILE *to, const char *fmt, const struct mf_spread *s)
{
    fputs("<td class=\"n\">", to);
    put_spread(to, fmt, s);
    fputs("</td>", to);
}

/* With what it is the mean of: "last 2 iterations, 512 episodes". */
static void put_final(FILE *to, const struct mf_summary *s)
{
    fputs("<td class=\"n\">", to);
    put_spread(to, "%.3f", &s->final);
    if (s->last.n) {
        fprintf(to, "<br/><span class=\"dim\">last %.0f", s->last.low);
        if (s->last.high > s->last.low)
            fprintf(to, " to %.0f", s->last.high);
        fputs(s->last.high > 1 ? " iterations" : " iteration", to);
        if (s->episodes > 0)
            fprintf(to, ", %.0f episodes", s->episodes);
        fputs("</span>", to);
    }
    fputs("</td>", to);
}

static void put_changed_keys(FILE *to, const struct mf_run_logs *t, const struct mf_cohort *g)
{
    const struct mf_run_log *one = g->log[0];
    bool any = false;
    for (int k = 0; mf_keys[k].name; k++) {
        if (!t->differs[k] || !one->text)
            continue;
        mf_html_put(to, any ? "<br/>" : "", mf_keys[k].name, "=");
        mf_html_put(to, "", one->text[k] ? one->text[k] : "null", "");
        any = true;
    }
    if (!any)
        fputs(one->text ? "-" : "not known", to);
}

static void put_row(FILE *to, const struct mf_run_logs *t, int i, const struct mf_goal *target)
{
    const struct mf_cohort *g = &t->group[i];
    const struct mf_summary s = mf_summary_of(g, target);
    fprintf(to, "<tr><td><a href=\"#g%d\">", i);
    mf_html_put(to, "", g->label, "</a></td><td><code>");
    put_changed_keys(to, t, g);
    fprintf(to, "</code></td><td class=\"n\">%d</td>", g->n);
    put_final(to, &s);
    put_number(to, "%.2g", s.final.variance);
    fprintf(to, "<td class=\"n\">%d of %d</td>", s.reached, g->n);
    put_spread_cell(to, "%.0f", &s.steps);
    put_spread_cell(to, "%.1f", &s.time);
    put_spread_cell(to, "%.3g", &s.per_iteration);
    put_spread_cell(to, "%.0f", &s.iterations);
    fputs("<td class=\"n\">", to);
    put_spread(to, "%.0f", &s.all);
    fprintf(to, " %s</td></tr>\n", mf_cohort_unit(g));
}

/* Of runs that are one row, what has a value, a line each. */
static void put_result(FILE *to, const struct mf_run_logs *t, const struct mf_goal *target)
{
    const struct mf_cohort *g = &t->group[0];
    const struct mf_summary s = mf_summary_of(g, target);
    const struct {
        const char *head, *fmt;
        const struct mf_spread *of;
    } row[] = {{"steps to it", "%.0f", &s.steps},
               {"seconds to it", "%.1f", &s.time},
               {"seconds per iteration", "%.3g", &s.per_iteration},
               {"iterations", "%.0f", &s.iterations},
               {mf_cohort_unit(g), "%.0f", &s.all}};
    fputs("<table id=\"comparison\">", to);
    if (!isnan(s.final.mean)) {
        fputs("<tr><th>final success</th>", to);
        put_final(to, &s);
        fprintf(to, "</tr>\n<tr><th>reached %g</th><td class=\"n\">%d of %d</td></tr>\n", target->success, s.reached,
                g->n);
    }
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        if (isnan(row[i].of->mean))
            continue;
        fprintf(to, "<tr><th>%s</th>", row[i].head);
        put_spread_cell(to, row[i].fmt, row[i].of);
        fputs("</tr>\n", to);
    }
    fputs("</table>\n", to);
}

void mf_comparison_put(const struct mf_run_logs *t, const struct mf_goal *target, FILE *to)
{
    fprintf(to,
            "<h2>%s</h2>\n<p>Success is the success rate of the rollouts, with exploration noise. Final success is "
            "taken over the "
            "last tenth of a run's iterations, %d at the most, weighted by episodes; over seeds the mean, and in "
            "brackets the minimum and maximum. The variance is the sample variance over seeds. Steps and seconds of "
            "training are counted until success was %g on average over %lld consecutive iterations (all of a shorter "
            "run), for the runs that reached it.</p>\n",
            t->n_groups > 1 ? "Comparison" : "Result", MF_LATELY, target->success, (long long)target->window);
    if (t->n_groups == 1) {
        put_result(to, t, target);
        return;
    }
    fprintf(to,
            "<div class=\"wide\"><table id=\"comparison\"><tr><th>runs</th><th>differing keys</th><th>seeds</th>"
            "<th>final success</th><th>variance</th><th>reached %g</th><th>steps to it</th><th>seconds to it</th>"
            "<th>seconds per iteration</th><th>iterations</th><th>steps</th></tr>\n",
            target->success);
    for (int i = 0; i < t->n_groups; i++)
        put_row(to, t, i, target);
    fputs("</table></div>\n", to);
}
