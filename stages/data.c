/* mf-data: summarises and verifies a file of demonstrations. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/plain.h"
#include "stream/json.h"
#include "demos/playback.h"
#include "demos/survey.h"
#include "stage/stage.h"

struct data {
    int format; /* 0 text, 1 json */
    bool values;
    const char *filter;
};

static const struct mf_bind binds[] = {
    {"data.format", offsetof(struct data, format)},
    {"data.values", offsetof(struct data, values)},
    {"clone.filter_key", offsetof(struct data, filter)},
    {0},
};

static void tell(void *path, size_t done, size_t of)
{
    mf_log_live("%s: %zu of %zu demonstrations read", (const char *)path, done, of);
}

static int by_size(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

/* The lengths of the demonstrations, in order; the caller frees them. */
static size_t *lengths(const struct mf_survey *s)
{
    size_t *n = mf_xcalloc(s->n_demos, sizeof *n);
    for (size_t i = 0; i < s->n_demos; i++)
        n[i] = s->demo[i].n;
    qsort(n, s->n_demos, sizeof *n, by_size);
    return n;
}

/* ---- for people ---- */

static void put_set(const struct mf_survey_set *q)
{
    char step[64] = "1";
    int n = q->by_step ? 0 : snprintf(step, sizeof step, "%s", q->rows ? "not by step" : "one");
    for (int i = 0; i < q->rank && q->by_step; i++)
        n += snprintf(step + n, sizeof step - (size_t)n, "%s%zu", i ? " x " : "", q->dim[i]);
    mf_plain(q->name, 32, stdout);
    printf(" %-5s %-14s %6zu", q->numbers ? mf_dtype_name(q->dtype) : "text", step, q->demos);
    double low = INFINITY, high = -INFINITY, mean = 0;
    for (size_t i = 0; i < q->wide && q->moments[0].n; i++) {
        low = fmin(low, q->moments[i].min);
        high = fmax(high, q->moments[i].max);
        mean += q->moments[i].mean / (double)q->wide;
    }
    if (q->moments[0].n)
        printf(" %10.4g %10.4g %10.4g", low, high, mean);
    putchar('\n');
}

static void put_text(const struct mf_survey *s, const char *path)
{
    size_t *n = lengths(s);
    mf_plain(path, 0, stdout);
    printf(": %zu demonstrations, %zu steps, %.1f MiB\n", s->n_demos, s->total, (double)s->bytes / (1 << 20));
    printf("steps         %zu to %zu, median %zu; %s to %s\n", n[0], n[s->n_demos - 1], n[s->n_demos / 2],
           s->demo[0].name, s->demo[s->n_demos - 1].name);
    printf("filter keys   ");
    for (int i = 0; i < s->n_masks; i++) {
        mf_plain(s->mask[i].name, 0, stdout);
        printf(" (%zu)%s", s->mask[i].n, i + 1 < s->n_masks ? ", " : "");
    }
    printf("%s\nenv_args      ", s->n_masks ? "" : "none");
    mf_plain(s->env_args ? s->env_args : "none", 0, stdout);
    fputs("\n\n", stdout);
    printf("%-32s %-5s %-14s %6s %10s %10s %10s\n", "dataset", "type", "step", "demos", "min", "max", "mean");
    for (int i = 0; i < s->n_sets; i++)
        put_set(&s->set[i]);
    free(n);
}

/* ---- for programs ---- */

static double deviation(const struct mf_moments *m)
{
    return sqrt(m->square / (double)m->n);
}
static double mean(const struct mf_moments *m)
{
    return m->mean;
}
static double least(const struct mf_moments *m)
{
    return m->min;
}
static double most(const struct mf_moments *m)
{
    return m->max;
}

static void add_moments(json_t *to, const struct mf_survey_set *q)
{
    static const struct {
        const char *name;
        double (*of)(const struct mf_moments *m);
    } what[] = {{"min", least}, {"max", most}, {"mean", mean}, {"std", deviation}};
    for (size_t k = 0; k < sizeof what / sizeof *what && q->moments[0].n; k++) {
        json_t *each = json_array();
        for (size_t i = 0; i < q->wide; i++)
            json_array_append_new(each, mf_json_number(what[k].of(&q->moments[i])));
        json_object_set_new(to, what[k].name, each);
    }
}

static json_t *json_sets(const struct mf_survey *s)
{
    json_t *sets = json_object();
    for (int i = 0; i < s->n_sets; i++) {
        const struct mf_survey_set *q = &s->set[i];
        json_t *set = json_pack("{s:s?, s:o, s:I, s:I}", "dtype", q->numbers ? mf_dtype_name(q->dtype) : NULL, "shape",
                                mf_json_sizes(q->dim, q->rank), "demos", (json_int_t)q->demos,
                                q->by_step ? "steps" : "rows", (json_int_t)q->rows);
        add_moments(set, q);
        mf_json_set(sets, q->name, set);
    }
    return sets;
}

static json_t *json_notes(const struct mf_survey_notes *n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n->n && i < MF_SURVEY_TEXTS; i++)
        json_array_append_new(list, mf_json_text(n->text[i]));
    return list;
}

static void put_json(const struct mf_survey *s, const char *path)
{
    struct mf_err ignored; /* the end of the program reports errors of stdout */
    json_t *keys = json_object(), *demos = json_object();
    for (int i = 0; i < s->n_masks; i++)
        mf_json_set(keys, s->mask[i].name, json_integer((json_int_t)s->mask[i].n));
    for (size_t i = 0; i < s->n_demos; i++)
        mf_json_set(demos, s->demo[i].name, json_integer((json_int_t)s->demo[i].n));
    json_t *all = json_pack("{s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "file", mf_json_text(path), "bytes",
                            (json_int_t)s->bytes, "steps", (json_int_t)s->total, "env_args", mf_json_text(s->env_args),
                            "filter_keys", keys, "demos", demos, "datasets", json_sets(s), "problems",
                            json_notes(&s->problems), "warnings", json_notes(&s->warnings));
    (void)mf_json_write(all, "\n", stdout, &ignored);
}

/* ---- */

static void log_notes(enum mf_level level, const struct mf_survey_notes *n)
{
    for (size_t i = 0; i < n->n && i < MF_SURVEY_TEXTS; i++)
        mf_log(level, "%s", n->text[i]);
    if (n->n > MF_SURVEY_TEXTS)
        mf_log(level, "and %zu more like these", n->n - MF_SURVEY_TEXTS);
}

/* Every frame of a recording matches its checksum. */
static int check_frames(const char *path, struct mf_err *err)
{
    struct mf_playback *p;
    const void *data;
    size_t len;
    int rc = mf_playback_open(&p, path, err);
    if (rc)
        return rc;
    while ((rc = mf_playback_next(p, &data, &len, err)) > 0)
        ;
    mf_playback_close(p);
    return rc;
}

static int work(struct mf_run *run, void *self, struct mf_err *err)
{
    struct data *d = self;
    struct mf_survey s;
    int n;
    const char *const *words = mf_run_operands(run, &n);
    if (n != 1)
        return mf_err_set(err, MF_EUSAGE, "give one file of demonstrations");
    const struct mf_survey_opts opts = {d->filter, d->values, tell, (void *)words[0]};
    int rc = mf_survey(&s, words[0], &opts, err);
    if (rc)
        return rc;
    mf_log_live("%s", "");
    (d->format ? put_json : put_text)(&s, words[0]);
    log_notes(MF_LOG_WARN, &s.warnings);
    if (s.problems.n > 1)
        log_notes(MF_LOG_ERROR, &s.problems);
    if (s.problems.n == 1)
        rc = mf_err_set(err, MF_EFORMAT, "'%s': %s", words[0], s.problems.text[0]);
    else if (s.problems.n)
        rc = mf_err_set(err, MF_EFORMAT, "'%s' has %zu problems", words[0], s.problems.n);
    if (rc == 0 && s.recording && d->values)
        rc = check_frames(words[0], err);
    mf_survey_release(&s);
    return rc;
}

static const struct mf_stage stage = {
    .name = "data",
    .summary = "Summarise and verify demonstrations in robomimic's HDF5 layout; exit 3 if they are damaged.",
    .operands = "FILE",
    .examples = "  mf-data low_dim.hdf5\n"
                "  mf-data low_dim.hdf5 data.format=json | jq '.datasets | keys'\n"
                "  mf-data image.hdf5 data.values=false    # shapes alone, at once\n",
    .role = MF_TOOL,
    .text_out = true,
    .binds = binds,
    .size = sizeof(struct data),
    .work = work,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
