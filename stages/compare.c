/* mf-compare: a table of methods, each run with several seeds: evaluations, paired tests, and the cost of training. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/plain.h"
#include "eval/eval.h"
#include "eval/grid.h"
#include "plot/methods.h"
#include "plot/summary.h"
#include "stage/rundir.h"
#include "stage/stage.h"

struct compare {
    struct mf_ints seeds;
    const char *clone;
    struct mf_goal target;
    int format;
    struct mf_methods methods;
    enum mf_measure of;
};

static const struct mf_bind binds[] = {
    {"compare.seeds", offsetof(struct compare, seeds)},
    {"compare.clone", offsetof(struct compare, clone)},
    {"eval.format", offsetof(struct compare, format)},
    {0},
};
static const struct mf_bind_table tables[] = {{mf_goal_binds, offsetof(struct compare, target)}, {0}};

enum { COLUMNS = 13, CELL = 80, MEASURE = 2, FIRST_OF_SUCCESS = 7, LAST_OF_SUCCESS = 9 };
static const struct mf_grid_column column[COLUMNS] = {{"method", -16},
                                                      {"seeds", 7},
                                                      {"success, 95 %", -20},
                                                      {"median of seeds", -20},
                                                      {"against the first, 95 %", -23},
                                                      {"won:lost", 8},
                                                      {"p", 7},
                                                      {"return", 7},
                                                      {"steps to it", 12},
                                                      {"s to it", 8},
                                                      {"steps", 10},
                                                      {"seconds", 8},
                                                      {"cost", 5}};

struct method_row {
    const struct mf_method *method;
    struct mf_method_score score;
    struct mf_summary summary;
    struct mf_paired against; /* n = 0: the first row, or no common trials */
    double cost;              /* seconds of an iteration, in those of the first method */
};

/* ---- the state of a run ---- */

/* The last error in METHOD-SEED.log, where pipelines/sweep leaves what a run's script printed, else its last line. "":
 * there is none. */
static void last_words(const struct mf_method_run *r, char *to, size_t size)
{
    char *path = mf_xcalloc(strlen(r->path) + 8, 1), *slash, line[400];
    bool error = false;
    sprintf(path, "%s.log", r->path);
    if ((slash = strrchr(path, '/')))
        *slash = '-';
    FILE *f = fopen(path, "re");
    *to = '\0';
    while (f && fgets(line, sizeof line, f)) {
        const bool is_error = strstr(line, ": error: ") != NULL;
        if (error && !is_error)
            continue;
        error = is_error;
        snprintf(to, size, "%.*s", (int)mf_plain_copy(line, line, strcspn(line, "\n")), line);
    }
    if (f)
        fclose(f);
    free(path);
}

static const char *state_of(const struct mf_method_run *r)
{
    char line[400];
    last_words(r, line, sizeof line);
    if (!r->log) /* one that was refused left no folder */
        return r->eval.seeds ? "evaluated" : *line ? "not begun" : "missing";
    if (r->log->h.ended)
        return r->eval.seeds ? "done" : "not evaluated";
    return mf_rundir_is_live(r->log->folder) ? "in progress" : r->log->h.n ? "cut" : "not begun";
}

/* ---- a row ---- */

static struct method_row row_of(const struct compare *c, const struct mf_method *m, const struct method_row *first)
{
    const int seeds = c->methods.n_seeds;
    struct method_row r = {
        .method = m, .score = mf_method_score(m, seeds, c->of), .summary = mf_summary_of(&m->cohort, &c->target)};
    if (first)
        r.against = mf_method_pair(first->method, m, seeds, c->of);
    r.cost = m->clones ? NAN
                       : r.summary.per_iteration.mean /
                             (first ? first->summary.per_iteration.mean : r.summary.per_iteration.mean);
    return r;
}

/* "12288 (8192 to 16384)" would be wide: the mean alone, and in how many runs if not in all. */
static void put_reached(char *to, const struct method_row *r, const struct mf_spread *s)
{
    char number[MF_NUMBER];
    const int n = r->method->cohort.n;
    if (s->n && s->n < n)
        snprintf(to, CELL, "%s (%d/%d)", mf_number(number, "%.0f", s->mean), s->n, n);
    else
        snprintf(to, CELL, "%s", mf_number(number, "%.0f", s->mean));
}

static void put_score(const struct compare *c, const struct method_row *r, char cell[COLUMNS][CELL])
{
    const struct mf_method_score *s = &r->score;
    if (!s->runs)
        return;
    const struct mf_rate all = mf_wilson(s->succeeded, s->trials);
    const struct mf_mean ret = mf_moments_mean(&s->ret);
    const int digits = c->of == MF_RETURN ? mf_mean_digits(s->median) : 3;
    if (c->of == MF_RETURN)
        mf_mean_text(&ret, cell[MEASURE], CELL);
    else
        snprintf(cell[MEASURE], CELL, "%.3f [%.3f, %.3f]", all.rate, all.low, all.high);
    snprintf(cell[3], CELL, "%.*f (%.*f to %.*f)", digits, s->median, digits, s->low, digits, s->high);
    if (r->against.n)
        mf_paired_text(&r->against, cell[4], cell[5], cell[6], CELL);
    mf_number(cell[7], "%.3f", ret.mean);
}

static void put_cells(const struct compare *c, const struct method_row *r, char cell[COLUMNS][CELL])
{
    const struct mf_summary *s = &r->summary;
    snprintf(cell[0], CELL, "%s", r->method->name);
    snprintf(cell[1], CELL, "%d of %d", r->score.runs, c->methods.n_seeds);
    put_score(c, r, cell);
    put_reached(cell[8], r, &s->steps);
    put_reached(cell[9], r, &s->time);
    mf_number(cell[10], r->method->clones ? "%.0f mb" : "%.0f", s->all.mean);
    mf_number(cell[11], "%.1f", s->seconds.mean);
    mf_number(cell[12], "%.2f", r->cost);
}

/* ---- for programs ---- */

static void add_spread(json_t *to, const char *name, const struct mf_spread *s)
{
    mf_json_set(to, name,
                json_pack("{s:i, s:o, s:o, s:o}", "n", s->n, "mean", mf_json_number(s->mean), "low",
                          mf_json_number(s->low), "high", mf_json_number(s->high)));
}

static json_t *run_json(const struct mf_method_run *r)
{
    char line[400];
    json_t *j =
        json_pack("{s:I, s:s, s:o}", "seed", (json_int_t)r->seed, "state", state_of(r), "run", mf_json_text(r->path));
    if (r->eval.seeds)
        json_object_set_new(j, "success_once",
                            mf_json_number(mf_evals_sum(&r->eval, "success_once") / (double)mf_evals_trials(&r->eval)));
    json_object_set(j, "digest", r->eval.seeds ? json_object_get(r->eval.result[0], "digest") : json_null());
    last_words(r, line, sizeof line);
    if (!mf_method_run_counts(r))
        json_object_set_new(j, "said", mf_json_text(line));
    return j;
}

static json_t *row_json(const struct compare *c, const struct method_row *r)
{
    const struct mf_method_score *s = &r->score;
    const struct mf_rate all = s->runs ? mf_wilson(s->succeeded, s->trials) : (struct mf_rate){NAN, NAN, NAN};
    const struct mf_mean ret = mf_moments_mean(&s->ret);
    json_t *j =
        json_pack("{s:o, s:i, s:i, s:I, s:s}", "method", mf_json_text(r->method->name), "seeds", c->methods.n_seeds,
                  "runs_done", s->runs, "n", (json_int_t)s->trials, "measure", mf_measure_names[c->of]);
    const struct {
        const char *name;
        double value;
    } row[] = {{"success_once", all.rate},
               {"success_once_low", all.low},
               {"success_once_high", all.high},
               {"median", s->median},
               {"lowest", s->low},
               {"highest", s->high},
               {"return", ret.mean},
               {"return_low", ret.low},
               {"return_high", ret.high},
               {"cost", r->cost}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        json_object_set_new(j, row[i].name, mf_json_number(row[i].value));
    mf_paired_json(j, r->against.n ? &r->against : NULL);
    json_object_set_new(j, "unit", json_string(r->method->clones ? "minibatches" : "control steps"));
    json_object_set_new(j, "reached", json_integer(r->summary.reached));
    if (c->format == MF_TABLE_CSV) {
        json_object_set_new(j, "steps_to_success", mf_json_number(r->summary.steps.mean));
        json_object_set_new(j, "seconds_to_success", mf_json_number(r->summary.time.mean));
        json_object_set_new(j, "steps", mf_json_number(r->summary.all.mean));
        json_object_set_new(j, "seconds", mf_json_number(r->summary.seconds.mean));
        return j;
    }
    add_spread(j, "steps_to_success", &r->summary.steps);
    add_spread(j, "seconds_to_success", &r->summary.time);
    add_spread(j, "steps", &r->summary.all);
    add_spread(j, "seconds", &r->summary.seconds);
    add_spread(j, "seconds_per_iteration", &r->summary.per_iteration);
    json_t *runs = json_array();
    for (int i = 0; i < c->methods.n_seeds; i++)
        json_array_append_new(runs, run_json(&r->method->run[i]));
    json_object_set_new(j, "runs", runs);
    return j;
}

/* ---- the stage ---- */

static bool has_runs(const struct mf_methods *q)
{
    for (int i = 0; i < q->n * q->n_seeds; i++)
        if (strcmp(state_of(&q->of[i / q->n_seeds].run[i % q->n_seeds]), "missing") != 0)
            return true;
    return false;
}

static int open_compare(struct mf_run *run, void *self, struct mf_err *err)
{
    struct compare *c = self;
    int n;
    const char *const *words = mf_run_operands(run, &n);
    if (n == 0)
        return mf_err_set(err, MF_EUSAGE,
                          "give the folders of the methods, each with a run SEED for every seed: "
                          "mf-compare outputs/compare/ppo outputs/compare/grpo");
    if (c->seeds.n == 0)
        return mf_err_set(err, MF_EUSAGE, "compare.seeds=[] is empty: nothing to compare");
    if (mf_file_once(n, words, err))
        return err->code;
    const char **folder = mf_xcalloc((size_t)n + 1, sizeof *folder);
    memcpy(folder, words, (size_t)n * sizeof *folder);
    if (c->clone)
        folder[n++] = c->clone;
    int rc = mf_methods_open(&c->methods, folder, n, &c->seeds, err);
    free(folder);
    if (rc == 0 && !has_runs(&c->methods))
        return mf_err_set(
            err, MF_EUSAGE,
            "%s%s has no run of a seed (compare.seeds), such as %s/%lld: give the folders of the methods, "
            "as in outputs/compare/ppo",
            words[0], n > 1 ? ", like the others," : "", words[0], (long long)c->seeds.v[0]);
    return rc;
}

/* What the numbers are, which runs do not count and why, and which policies all started from. */
static void put_notes(const struct compare *c, FILE *to)
{
    char line[400];
    if (c->of == MF_RETURN)
        fputs("\nReturn: fixed trials without noise, of all seeds that count; no trial succeeded, so the return is "
              "compared: "
              "Student's\nintervals, the paired t test, trials of higher and lower return. Cost: seconds of an "
              "iteration, "
              "in those of the first row.\nmb: minibatches of cloning, without control steps.\n",
              to);
    else
        fprintf(
            to,
            "\nSuccess: fixed trials without noise, of all seeds that count. To it: until the rollouts, with their "
            "exploration noise,\nsucceeded at a rate of %g on average over %lld iterations; means over the seeds that "
            "got there. Cost: seconds of an\niteration, in those of the first row. mb: minibatches of cloning, "
            "without control steps.\n",
            c->target.success, (long long)c->target.window);
    for (int i = 0; i < c->methods.n * c->methods.n_seeds; i++) {
        const struct mf_method *m = &c->methods.of[i / c->methods.n_seeds];
        const struct mf_method_run *r = &m->run[i % c->methods.n_seeds];
        if (mf_method_run_counts(r))
            continue;
        last_words(r, line, sizeof line);
        fprintf(to, "%s, seed %lld: %s%s%s\n", m->name, (long long)r->seed, state_of(r), *line ? "; " : "", line);
    }
    const struct mf_method *last = &c->methods.of[c->methods.n - 1];
    for (int i = 0; c->clone && i < c->methods.n_seeds; i++)
        if (last->run[i].eval.seeds)
            fprintf(to, "%s, seed %lld: weights %s\n", last->name, (long long)last->run[i].seed,
                    json_string_value(json_object_get(last->run[i].eval.result[0], "digest")));
}

static int work(struct mf_run *run, void *self, struct mf_err *err)
{
    struct compare *c = self;
    struct mf_grid_column heads[COLUMNS];
    struct mf_grid grid = {.to = stdout, .format = (enum mf_table_format)c->format, .column = heads, .n = COLUMNS};
    struct method_row first;
    memcpy(heads, column, sizeof heads);
    if ((c->of = mf_methods_measure(&c->methods)) == MF_RETURN)
        heads[MEASURE].head = "return, 95 %";
    (void)run;
    for (int i = 0; i < c->methods.n; i++) {
        char cell[COLUMNS][CELL] = {""};
        const char *text[COLUMNS];
        const struct method_row r = row_of(c, &c->methods.of[i], i ? &first : NULL);
        put_cells(c, &r, cell);
        for (int k = 0; k < COLUMNS; k++)
            text[k] = c->of == MF_RETURN && k >= FIRST_OF_SUCCESS && k <= LAST_OF_SUCCESS ? NULL : cell[k];
        mf_grid_row(&grid, text, row_json(c, &r));
        if (i == 0)
            first = r;
    }
    mf_grid_end(&grid);
    if (c->format == MF_TABLE_TEXT || c->format == MF_TABLE_MARKDOWN)
        put_notes(c, stdout);
    return mf_flush_text(err);
}

static int close_compare(struct mf_run *run, void *self, int rc, struct mf_err *err)
{
    (void)run, (void)rc, (void)err;
    mf_methods_close(&((struct compare *)self)->methods);
    return 0;
}

static const struct mf_stage stage = {
    .name = "compare",
    .summary =
        "Compare methods, each a folder METHOD of runs METHOD/SEED that mf-eval has evaluated (logs/eval.json):\n"
        "success (return where no trial succeeded), paired difference from the first method, and what its training "
        "took.",
    .operands = "METHOD...",
    .examples = "  mf-compare outputs/compare/ppo_flow_noise outputs/compare/grpo compare.seeds=[0,1,2]\n"
                "  mf-compare outputs/compare/* compare.seeds=[0,1] eval.format=json >table.json\n",
    .role = MF_TOOL,
    .text_out = true,
    .binds = binds,
    .tables = tables,
    .size = sizeof(struct compare),
    .open = open_compare,
    .work = work,
    .close = close_compare,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
