/* mf-plot: plots metrics of runs. Runs that differ only in the seed form one curve, in the band of their range. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/publish.h"
#include "plot/picture.h"
#include "stage/stage.h"

struct plot {
    const char *out;
    int axis;
    struct mf_names series;
    struct mf_run_logs logs;
};

static const struct mf_bind binds[] = {
    {"plot.out", offsetof(struct plot, out)},
    {"plot.x", offsetof(struct plot, axis)},
    {"plot.series", offsetof(struct plot, series)},
    {0},
};

static int form_of(const char *path, enum mf_form *form, struct mf_err *err)
{
    const char *dot = path ? strrchr(path, '.') : NULL;
    *form = !path ? MF_FORM_TEXT : dot && !strcmp(dot, ".png") ? MF_FORM_PNG : MF_FORM_SVG;
    if (*form == MF_FORM_SVG && !(dot && !strcmp(dot, ".svg")))
        return mf_err_set(err, MF_EUSAGE, "plot.out='%.200s' must end in .png or .svg", path);
    return 0;
}

static int open_plot(struct mf_run *run, void *self, struct mf_err *err)
{
    struct plot *p = self;
    enum mf_form form;
    int n;
    const char *const *words = mf_run_operands(run, &n);
    if (n == 0)
        return mf_err_set(err, MF_EUSAGE, "give the runs to plot: mf-plot outputs/point/latest");
    int rc = form_of(p->out, &form, err);
    return rc ? rc : mf_run_logs_open(&p->logs, words, n, err);
}

/* Checks the requested metrics; without any, takes success or the first one. */
static int choose(struct plot *p, struct mf_err *err)
{
    const struct mf_run_logs *t = &p->logs;
    const struct mf_history *h = NULL;
    char there[400] = "";
    for (int i = 0; i < t->n && !h; i++)
        h = t->log[i].h.n_series ? &t->log[i].h : NULL;
    if (!h)
        return mf_err_set(err, MF_EUSAGE, "%s has no iteration to plot yet", t->log[0].path);
    if (p->series.n == 0) {
        p->series.n = 1;
        snprintf(p->series.v[0], sizeof p->series.v[0], "%s",
                 mf_cohorts_have(t->group, t->n_groups, "rollout/success_once") ? "rollout/success_once"
                                                                                : h->series[0].name);
    }
    for (int s = 0, n = 0; s < h->n_series && n < (int)sizeof there; s++)
        n += snprintf(there + n, sizeof there - (size_t)n, "%s%s", s ? ", " : "", h->series[s].name);
    for (int i = 0; i < p->series.n; i++)
        if (!mf_cohorts_have(t->group, t->n_groups, p->series.v[i]))
            return mf_err_set(err, MF_EUSAGE, "no run has '%s'; available: %s", p->series.v[i], there);
    return 0;
}

/* gnuplot begins its characters with a form feed and empty lines. */
static size_t blank_lines(const char *bytes, size_t n)
{
    size_t first = 0;
    for (size_t i = 0; i < n && strchr("\f\n ", bytes[i]); i++)
        first = bytes[i] == '\n' ? i + 1 : first;
    return first;
}

static int write_out(const struct plot *p, const char *bytes, size_t n, struct mf_err *err)
{
    if (!p->out) {
        const size_t blank = blank_lines(bytes, n);
        fwrite(bytes + blank, 1, n - blank, stdout);
        return mf_flush_text(err);
    }
    return mf_publish_bytes(p->out, bytes, n, err);
}

static struct mf_picture layout(const struct plot *p, enum mf_form form, const char *series[MF_LIST_MAX])
{
    struct winsize w = {.ws_col = 79};
    const int n = p->series.n, rows = (n + 1) / 2, keys = p->logs.n_groups;
    for (int i = 0; i < n; i++)
        series[i] = p->series.v[i];
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) < 0 || w.ws_col < 40)
        w.ws_col = 79;
    return (struct mf_picture){
        .form = form,
        .width = form == MF_FORM_TEXT ? w.ws_col - 1
                 : n > 1              ? 1400
                                      : 900,
        .height = form == MF_FORM_TEXT ? (18 + (keys > 1 ? keys : 0)) * n : 420 * rows + 20 * keys * rows,
        .axis = (enum mf_axis)p->axis,
        .n_series = n,
        .series = series,
        .n_groups = p->logs.n_groups,
        .group = p->logs.group,
    };
}

static int work(struct mf_run *run, void *self, struct mf_err *err)
{
    struct plot *p = self;
    enum mf_form form;
    const char *series[MF_LIST_MAX];
    char *script = NULL, *bytes = NULL;
    size_t length, n;
    (void)run;
    int rc = form_of(p->out, &form, err);
    if (rc || (rc = choose(p, err)))
        return rc;
    const struct mf_picture picture = layout(p, form, series);
    FILE *to = open_memstream(&script, &length);
    if (!to)
        return mf_err_errno(err, "memory for a picture");
    const int curves = mf_picture_script(&picture, to);
    if (fclose(to))
        rc = mf_err_errno(err, "memory for a picture");
    else if (curves == 0)
        rc = mf_err_set(err, MF_EUSAGE,
                        "'%s' has no value to plot yet in any run, or none at a step that all its seeds reached",
                        series[0]);
    if (rc == 0 && (rc = mf_picture_make(script, length, &bytes, &n, err)) == 0)
        rc = write_out(p, bytes, n, err);
    free(script);
    free(bytes);
    return rc;
}

static int close_plot(struct mf_run *run, void *self, int rc, struct mf_err *err)
{
    (void)run, (void)rc, (void)err;
    mf_run_logs_close(&((struct plot *)self)->logs);
    return 0;
}

static const struct mf_stage stage = {
    .name = "plot",
    .summary = "Plot metrics of runs as PNG or SVG or, without plot.out, as text. Runs in one folder that differ\n"
               "only in run.seed form one curve: their mean, in a band from minimum to maximum.",
    .operands = "[RUN|FOLDER]...",
    .examples = "  mf-plot outputs/point/latest\n"
                "  mf-plot outputs/sweep plot.out=sweep.png 'plot.series=[rollout/success_once,train/approx_kl]'\n",
    .role = MF_TOOL,
    .text_out = true,
    .binds = binds,
    .size = sizeof(struct plot),
    .open = open_plot,
    .work = work,
    .close = close_plot,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
