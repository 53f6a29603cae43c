#include "plot/comparison.h"

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

static void put_told(FILE *to, const struct mf_trials *t, const struct mf_cohort *g)
{
    const struct mf_trial *one = g->trial[0];
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

static void put_row(FILE *to, const struct mf_trials *t, int i, double success)
{
    const struct mf_cohort *g = &t->group[i];
    const struct mf_summary s = mf_summary_of(g, success);
    fprintf(to, "<tr><td><a href=\"#g%d\">", i);
    mf_html_put(to, "", g->label, "</a></td><td><code>");
    put_told(to, t, g);
    fprintf(to, "</code></td><td class=\"n\">%d</td>", g->n);
    put_final(to, &s);
    put_number(to, "%.2g", s.final.variance);
    fprintf(to, "<td class=\"n\">%d of %d</td>", s.reached, g->n);
    put_spread_cell(to, "%.0f", &s.steps);
    put_spread_cell(to, "%.1f", &s.time);
    put_spread_cell(to, "%.3g", &s.per_iteration);
    put_spread_cell(to, "%.0f", &s.iterations);
    put_spread_cell(to, "%.0f", &s.all);
    fputs("</tr>\n", to);
}

void mf_comparison_put(const struct mf_trials *t, double success, FILE *to)
{
    fprintf(
        to,
        "<h2>Comparison</h2>\n<p>Success is that of the rollouts, exploration noise on. The final one is over the "
        "last tenth of a run's iterations, %d at the most, each counted by its episodes; over seeds the mean, and "
        "in brackets the least and the most. The variance is the sample's, over seeds. Steps and seconds of "
        "training are those until success was %g in the mean over %d iterations in a row (all of a shorter run), of "
        "the runs that reached it.</p>\n"
        "<div class=\"wide\"><table id=\"comparison\"><tr><th>runs</th><th>what differs</th><th>seeds</th>"
        "<th>final success</th><th>variance</th><th>reached %g</th><th>steps to it</th><th>seconds to it</th>"
        "<th>seconds per iteration</th><th>iterations</th><th>control steps</th></tr>\n",
        MF_LATELY, success, MF_LATELY, success);
    for (int i = 0; i < t->n_groups; i++)
        put_row(to, t, i, success);
    fputs("</table></div>\n", to);
}
