/* mf-report: one self-contained HTML page about one or many runs: configuration, results, comparison. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/machine.h"
#include "base/mem.h"
#include "plot/comparison.h"
#include "plot/evals.h"
#include "plot/html.h"
#include "plot/picture.h"
#include "rl/health.h"
#include "stage/rundir.h"
#include "stage/stage.h"

enum { VIDEO_MOST = 16 << 20 }; /* bytes of an embedded video */

struct report {
    struct mf_goal target;
    struct mf_run_logs logs;
    struct mf_evals evals;
};

static const struct mf_bind_table tables[] = {{mf_goal_binds, offsetof(struct report, target)}, {0}};

static const char style[] =
    "body{font:15px/1.45 sans-serif;max-width:1200px;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;margin:.6em 0}td,th{padding:.2em .5em;border-bottom:1px solid #ddd;text-align:left;"
    "vertical-align:top}td.n{text-align:right}code,a,h1,h2,h3,p{overflow-wrap:anywhere}"
    "code{font-size:13px}h2{margin-top:2em;border-bottom:2px solid #2060c0}.trouble{color:#a02020}.dim{color:#666}"
    "svg,video,img{max-width:100%;height:auto}div.wide{overflow-x:auto}"
    "div.wide table{font-size:14px}div.wide td:first-child{min-width:9em}#comparison td:nth-child(2){min-width:12em}";

/* ---- pictures: one gnuplot run for all, then distributed ---- */

static const char *const shown[] = {"rollout/success_once", "rollout/ep_return",        "train/approx_kl",
                                    "train/clip_fraction",  "train/explained_variance", "train/loss",
                                    "train/rfc_loss"};
enum { SHOWN = sizeof shown / sizeof *shown };

/* Adds one picture with the curves of some groups; false: no curves, script unchanged. */
static bool ask_for(FILE *script, const struct mf_cohort *g, int n, int id, int height)
{
    const char *series[SHOWN];
    struct mf_picture p = {.form = MF_FORM_SVG, .width = 1150, .series = series, .n_groups = n, .group = g, .id = id};
    for (int i = 0; i < SHOWN; i++)
        if (mf_cohorts_have(g, n, shown[i]))
            series[p.n_series++] = shown[i];
    p.height = (p.n_series + 1) / 2 * height;
    const long before = ftell(script);
    const bool any = p.n_series > 0 && mf_picture_script(&p, script) > 0;
    if (!any)
        fseek(script, before, SEEK_SET);
    return any;
}

/* The next picture in *at, without the text before its first element. */
static void put_next(FILE *to, char **at)
{
    char *start = *at ? strstr(*at, "<svg") : NULL, *end = start ? strstr(start, "</svg>") : NULL;
    if (!end)
        return;
    fwrite(start, 1, (size_t)(end + 6 - start), to);
    putc('\n', to);
    *at = end + 6;
}

static int draw(const struct report *r, bool *drawn, char **svg, struct mf_err *err)
{
    const struct mf_run_logs *t = &r->logs;
    char *script = NULL;
    size_t length, n;
    FILE *to = open_memstream(&script, &length);
    if (!to)
        return mf_err_errno(err, "memory for pictures");
    bool any = t->n_groups > 1 && ask_for(to, t->group, t->n_groups, t->n_groups, 300 + 8 * t->n_groups);
    drawn[t->n_groups] = any;
    for (int g = 0; g < t->n_groups; g++)
        any |= drawn[g] = ask_for(to, &t->group[g], 1, g, 240);
    int rc = fclose(to) ? mf_err_errno(err, "memory for pictures") : 0;
    if (rc == 0 && any)
        rc = mf_picture_make(script, length, svg, &n, err);
    free(script);
    return rc;
}

/* ---- one group ---- */

static void put_configuration(FILE *to, const struct mf_run_logs *t, const struct mf_cohort *g)
{
    const struct mf_run_log *one = g->log[0];
    if (!one->text) {
        fputs("<p>Its configuration is not known: there is no configs/ in its folder.</p>\n", to);
        return;
    }
    for (int round = t->n_groups < 2; round < 3;
         round++) { /* differing keys, other keys that are not the default, the rest */
        fprintf(to, "<details%s><summary>%s</summary><table>\n", round < 2 ? " open=\"open\"" : "",
                round == 0   ? "Keys that differ between the runs of this page"
                : round == 1 ? "Other keys that differ from the defaults"
                             : "The other keys");
        for (int k = 0; mf_keys[k].name; k++) {
            const int place = t->differs[k] ? 0 : mf_run_logs_set(t, one, k) ? 1 : 2;
            if (place != round || !strncmp(mf_keys[k].name, "run.", 4)) /* differs in every run */
                continue;
            mf_html_put(to, "<tr><td><code>", mf_keys[k].name, "</code></td><td><code>");
            mf_html_put(to, "", one->text[k] ? one->text[k] : "null", "</code></td></tr>\n");
        }
        fputs("</table></details>\n", to);
    }
}

/* The chain in the stream's head: programs, versions, words. */
static void put_chain(FILE *to, const struct mf_history *h)
{
    const int n = h->head ? mf_frame_count(h->head, "chain") : 0;
    struct mf_err ignored;
    for (int i = 0; i < n; i++) {
        char path[64];
        const char *text = "";
        snprintf(path, sizeof path, "chain.%d.version", i);
        (void)mf_frame_get_str(h->head, path, &text, &ignored);
        mf_html_put(to, i ? "<br/>| " : "<p><code>", text, ": ");
        snprintf(path, sizeof path, "chain.%d.argv", i);
        for (int w = 0, words = mf_frame_count(h->head, path); w < words; w++) {
            snprintf(path, sizeof path, "chain.%d.argv.%d", i, w);
            if (mf_frame_get_str(h->head, path, &text, &ignored) == 0)
                mf_html_put(to, w ? " " : "", text, "");
        }
    }
    fputs(n > 0 ? "</code></p>\n" : "<p>The provenance of its stream is not known.</p>\n", to);
}

static void put_troubles(FILE *to, const struct mf_history *h)
{
    char *text;
    size_t n;
    FILE *into = open_memstream(&text, &n);
    if (!into)
        return;
    mf_diagnose(h, into);
    fclose(into);
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;)
        if (*line)
            mf_html_put(to, "<p class=\"trouble\">", line, "</p>\n");
    free(text);
}

static void put_video(FILE *to, const char *dir, const char *name)
{
    const char *dot = strrchr(name, '.');
    const bool film = dot && !strcmp(dot, ".mp4"), gif = dot && !strcmp(dot, ".gif");
    char *path = mf_xcalloc(strlen(name) + 8, 1);
    sprintf(path, "videos/%s", name);
    if (film || gif) {
        mf_html_put(to, "<p>", path, "<br/>");
        fputs(film ? "<video controls=\"controls\" src=\"" : "<img alt=\"trials\" src=\"", to);
        const bool there = mf_html_data(dir, path, film ? "video/mp4" : "image/gif", VIDEO_MOST, to);
        fputs(film ? "\"></video>" : "\"/>", to);
        fputs(there ? "</p>\n"
                    : " is not in this page: it cannot be read, is a link out of the run's folder, or is larger "
                      "than 16 MiB</p>\n",
              to);
    }
    free(path);
}

static void put_videos(FILE *to, const char *dir)
{
    struct dirent **entry;
    char *videos = mf_xcalloc(strlen(dir) + 8, 1);
    sprintf(videos, "%s/videos", dir);
    const int n = scandir(videos, &entry, NULL, versionsort);
    for (int i = 0; i < n; i++) {
        put_video(to, dir, entry[i]->d_name);
        free(entry[i]);
    }
    if (n >= 0)
        free(entry);
    free(videos);
}

/* The machine on which the run was last started, from its folder. */
static void put_where(FILE *to, const char *dir)
{
    char line[600] = "";
    struct mf_err ignored;
    FILE *f = mf_file_read_in(dir, "configs/machine", &ignored);
    if (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        mf_html_put(to, "<p>On ", line, "</p>\n");
    }
    if (f)
        fclose(f);
}

static void put_run(FILE *to, const struct mf_run_log *t)
{
    const struct mf_history *h = &t->h;
    mf_html_put(to, "<h3>", t->path, "</h3>\n<p>");
    if (t->text)
        fprintf(to, "seed %lld, ", (long long)t->seed);
    fprintf(to, "%zu iterations, %.0f %s, %.1f s; %s</p>\n", h->n, h->n ? h->step[h->n - 1] : 0,
            mf_cohort_unit(&(struct mf_cohort){.n = 1, .log = &t}), h->n ? h->time[h->n - 1] : 0,
            h->ended                                     ? "ended"
            : *t->folder && mf_rundir_is_live(t->folder) ? "in progress when this page was written"
                                                         : "cut before its end");
    put_troubles(to, h);
    put_chain(to, h);
    if (!*t->folder)
        return;
    put_where(to, t->folder);
    put_videos(to, t->folder);
}

/* ---- the page ---- */

static void put_machine(FILE *to)
{
    char machine[600], when[64];
    const time_t now = time(NULL);
    struct tm tm;
    mf_machine(machine, sizeof machine);
    strftime(when, sizeof when, "%Y-%m-%d %H:%M %Z", localtime_r(&now, &tm));
    mf_html_put(to, "<p class=\"dim\">Written by mf-report " MF_VERSION " on ", when, ", on ");
    mf_html_put(to, "", machine, "</p>\n");
}

static void put_page(FILE *to, const struct report *r, const bool *drawn, char *svg)
{
    const struct mf_run_logs *t = &r->logs;
    const char *title = t->n_groups == 1 ? t->group->label : "Runs compared";
    mf_html_put(to,
                "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\"><head><meta "
                "charset=\"utf-8\"/><title>",
                title, "</title><style>");
    fputs(style, to);
    mf_html_put(to, "</style></head><body>\n<h1>", title, "</h1>\n");
    put_machine(to);
    mf_comparison_put(t, &r->target, to);
    mf_evals_put(&r->evals, to);
    if (drawn[t->n_groups]) {
        fputs("<h2>Curves</h2>\n<p>Each curve is the mean over seeds, in a band from minimum to maximum.</p>\n", to);
        put_next(to, &svg);
    }
    for (int g = 0; g < t->n_groups; g++) {
        fprintf(to, "<h2 id=\"g%d\">", g);
        mf_html_put(to, "", t->group[g].label, "</h2>\n");
        put_configuration(to, t, &t->group[g]);
        if (drawn[g])
            put_next(to, &svg);
        for (int i = 0; i < t->group[g].n; i++)
            put_run(to, t->group[g].log[i]);
    }
    fputs("</body></html>\n", to);
}

static bool is_one_of(const char *folder, const char *const *words, int n)
{
    bool is = false;
    for (int i = 0; i < n; i++)
        is |= !strcmp(folder, words[i]);
    return is;
}

static int open_report(struct mf_run *run, void *self, struct mf_err *err)
{
    int n;
    const char *const *words = mf_run_operands(run, &n);
    if (n == 0)
        return mf_err_set(err, MF_EUSAGE, "give the runs to report on: mf-report outputs/sweep >report.html");
    if (mf_run_on_terminal(run))
        return mf_err_set(err, MF_EUSAGE,
                          "the output is an HTML page, not text for a terminal: mf-report %s >report.html", words[0]);
    struct report *r = self;
    int rc = mf_run_logs_open(&r->logs, words, n, err);
    for (int i = 0; i < n && rc == 0; i++)
        mf_evals_read(&r->evals, i, words[i], "");
    for (int i = 0; i < r->logs.n && rc == 0; i++) {
        const char *folder = r->logs.log[i].folder;
        const int word = r->logs.log[i].word;
        if (!*folder)
            continue;
        if (!is_one_of(folder, words, n))
            mf_evals_read(&r->evals, word, folder, "");
        mf_evals_read(&r->evals, word, folder, "logs");
    }
    mf_evals_sort(&r->evals);
    return rc;
}

static int work(struct mf_run *run, void *self, struct mf_err *err)
{
    struct report *r = self;
    bool *drawn = mf_xcalloc((size_t)r->logs.n_groups + 1, sizeof *drawn);
    char *svg = NULL, *page = NULL;
    size_t size;
    (void)run;
    int rc = draw(r, drawn, &svg, err);
    FILE *to = rc ? NULL : open_memstream(&page, &size); /* complete before its first byte is written */
    if (to)
        put_page(to, r, drawn, svg);
    if (rc == 0 && (!to || fclose(to)))
        rc = mf_err_errno(err, "memory for the page");
    if (rc == 0) {
        fwrite(page, 1, size, stdout);
        rc = mf_flush_text(err);
    }
    free(page);
    free(svg);
    free(drawn);
    return rc;
}

static int close_report(struct mf_run *run, void *self, int rc, struct mf_err *err)
{
    (void)run, (void)rc, (void)err;
    mf_run_logs_close(&((struct report *)self)->logs);
    mf_evals_release(&((struct report *)self)->evals);
    return 0;
}

static const struct mf_stage stage = {
    .name = "report",
    .summary = "Write one self-contained HTML page about runs: differing keys, comparison, evaluations, curves,\n"
               "problems, provenance, videos. Runs in one folder that differ only in run.seed form one row.",
    .operands = "[RUN|FOLDER]...",
    .examples = "  mf-report outputs/lift/latest >report.html\n"
                "  mf-report outputs/sweep report.success=.8 >sweep.html\n",
    .role = MF_TOOL,
    .text_out = true,
    .tables = tables,
    .size = sizeof(struct report),
    .open = open_report,
    .work = work,
    .close = close_report,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
