#include "plot/comparison.h"

#include <math.h>

#include "plot/html.h"
#include "plot/summary.h"

static void put_number(FILE *to, const char *fmt, double v)
{
    fputs("<td class=\"n\">", to);
    if (isnan(v))
        putc('-', to);
    else
        fprintf(to, fmt, v);
    fputs("</td>", to);
}

/* "0.873 (0.84 to 0.91)" */
static void put_spread(FILE *to, const char *fmt, const struct mf_spread *s)
{
    fputs("<td class=\"n\">", to);
    if (s->n == 0)
        putc('-', to);
    else
        fprintf(to, fmt, s->mean);
    if (s->high > s->low) {
        fputs(" <span class=\"dim\">(", to);
        fprintf(to, fmt, s->low);
        fputs(" to ", to);
        fprintf(to, fmt, s->high);
        fputs(")</span>", to);
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
    put_spread(to, "%.3f", &s.final);
    put_number(to, "%.2g", s.final.variance);
    fprintf(to, "<td class=\"n\">%d of %d</td>", s.reached, g->n);
    put_spread(to, "%.0f", &s.steps);
    put_spread(to, "%.1f", &s.time);
    put_spread(to, "%.3g", &s.per_iteration);
    put_spread(to, "%.0f", &s.iterations);
    put_spread(to, "%.0f", &s.all);
    fputs("</tr>\n", to);
}

void mf_comparison_put(const struct mf_trials *t, double success, FILE *to)
{
    fprintf(to,
            "<h2>Comparison</h2>\n<p>Success is that of the rollouts, exploration noise on, in the mean over %d "
            "iterations; over seeds the mean, and in brackets the least and the most. The variance is the "
            "sample's, over seeds. Steps and seconds are those until success was %g, of the runs that reached it.</p>\n"
            "<div class=\"wide\"><table id=\"comparison\"><tr><th>runs</th><th>what differs</th><th>seeds</th>"
            "<th>final success</th><th>variance</th><th>reached %g</th><th>steps to it</th><th>seconds to it</th>"
            "<th>seconds per iteration</th><th>iterations</th><th>control steps</th></tr>\n",
            MF_LATELY, success, success);
    for (int i = 0; i < t->n_groups; i++)
        put_row(to, t, i, success);
    fputs("</table></div>\n", to);
}
