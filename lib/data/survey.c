#include "data/survey.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/demo_list.h"

enum { BAND = 1 << 20, WIDE_MAX = 1 << 10, DEEP = 4, SETS_MAX = 4096 }; /* BAND: numbers in memory at once */

struct survey {
    struct mf_survey *s;
    const struct mf_survey_opts *opts;
    const char *path;
    hid_t file;
    double *band;
    size_t band_size;
    /* the demo at hand */
    struct mf_demo *demo;
    bool unclipped; /* told of it */
    bool no_obs;    /* told of that */
};

static void note(struct mf_survey_notes *to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void note(struct mf_survey_notes *to, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (to->n < MF_SURVEY_TEXTS)
        to->text[to->n] = mf_xstrdup(text);
    to->n++;
}

/* ---- numbers ---- */

/* Datasets that readers take row by row. */
static bool must_fit(const char *name)
{
    static const char *const groups[] = {"obs/", "next_obs/"}, *const sets[] = {"actions", "rewards", "dones"};
    for (int i = 0; i < 2; i++)
        if (!strncmp(name, groups[i], strlen(groups[i])))
            return true;
    for (int i = 0; i < 3; i++)
        if (!strcmp(name, sets[i]))
            return true;
    return false;
}

static bool is_actions(const struct mf_survey_set *q)
{
    return !strcmp(q->name, "actions");
}

/* Rows from `first` on, in the band. */
static void add_band(struct survey *v, struct mf_survey_set *q, size_t first, size_t rows, size_t row, bool *told)
{
    for (size_t i = 0; i < rows * row; i++) {
        double x = v->band[i];
        if (isfinite(x))
            mf_moments_add(&q->moments[i % q->wide], x);
        else if (!*told) {
            note(must_fit(q->name) ? &v->s->problems : &v->s->warnings, "%s: %s[%zu, %zu] is %g", v->demo->name,
                 q->name, first + i / row, i % row, x);
            *told = true;
        }
        if (is_actions(q) && fabs(x) > 1 && !v->unclipped) {
            note(&v->s->warnings, "%s: actions[%zu, %zu] is %g, outside of the [-1, 1] that environments take",
                 v->demo->name, first + i / row, i % row, x);
            v->unclipped = true;
        }
    }
}

static int make_band(struct survey *v, size_t numbers, struct mf_err *err)
{
    if (numbers <= v->band_size)
        return 0;
    free(v->band);
    v->band = NULL;
    v->band_size = 0;
    int rc = mf_alloc((void **)&v->band, numbers * sizeof *v->band, "rows of a dataset", err);
    v->band_size = rc ? 0 : numbers;
    return rc;
}

static int read_numbers(struct survey *v, hid_t set, struct mf_survey_set *q, size_t rows, struct mf_err *err)
{
    hsize_t start[MF_RANK_MAX + 1] = {0}, count[MF_RANK_MAX + 1];
    size_t row = 1;
    bool told = false;
    for (int i = 0; i < q->rank; i++)
        row *= (size_t)(count[i + 1] = q->dim[i]);
    if (row == 0)
        return 0;
    size_t step = row < BAND ? BAND / row : 1;
    int rc = make_band(v, row * (step < rows ? step : rows), err);
    hid_t file = H5Dget_space(set);
    for (size_t at = 0; at < rows && rc == 0; at += step) {
        start[0] = at, count[0] = rows - at < step ? rows - at : step;
        hid_t memory = H5Screate_simple(q->rank + 1, count, NULL);
        H5Sselect_hyperslab(file, H5S_SELECT_SET, start, NULL, count, NULL);
        if (H5Dread(set, H5T_NATIVE_DOUBLE, memory, file, H5P_DEFAULT, v->band) < 0)
            rc = mf_h5_unread(err, "it cannot be read");
        else
            add_band(v, q, at, (size_t)count[0], row, &told);
        mf_h5_close(memory);
        mf_h5_alive();
    }
    mf_h5_close(file);
    return rc;
}

/* ---- a dataset ---- */

static struct mf_survey_set *find_set(struct mf_survey *s, const char *name)
{
    for (int i = 0; i < s->n_sets; i++)
        if (!strcmp(s->set[i].name, name))
            return &s->set[i];
    return NULL;
}

/* What the dataset is, by its header. Its sources stay open in held. */
static int look(hid_t set, struct mf_survey_set *q, size_t *rows, struct mf_h5_held *held, struct mf_err *err)
{
    hsize_t dim[MF_RANK_MAX + 1] = {0};
    struct mf_err ignored;
    int rank, rc = mf_h5_shape(set, MF_RANK_MAX + 1, &rank, dim, err);
    if (rc)
        return rc;
    q->rank = rank > 0 ? rank - 1 : 0;
    *rows = rank > 0 ? (size_t)dim[0] : 0;
    for (int i = 0; i < q->rank; i++)
        q->dim[i] = (size_t)dim[i + 1];
    q->numbers = mf_h5_numbers(set, &q->dtype, &ignored) == 0;
    return q->numbers ? mf_h5_whole(set, held, err) : 0;
}

static struct mf_survey_set *new_set(struct mf_survey *s, const struct mf_survey_set *found)
{
    s->set = mf_xrealloc(s->set, (size_t)s->n_sets + 1, sizeof *s->set);
    struct mf_survey_set *q = &s->set[s->n_sets++];
    *q = *found;
    q->wide = q->rank == 0 ? 1 : q->rank == 1 && q->dim[0] <= WIDE_MAX && q->dim[0] ? q->dim[0] : 1;
    q->moments = mf_xcalloc(q->wide, sizeof *q->moments);
    return q;
}

static int add_rows(struct survey *v, hid_t set, const char *name, const struct mf_survey_set *found, size_t rows,
                    struct mf_err *err)
{
    struct mf_survey_set *q = find_set(v->s, name);
    const bool fits = rows == v->demo->n;
    if (!q && v->s->n_sets == SETS_MAX)
        return mf_err_set(err, MF_EFORMAT, "the file has more than %d different datasets", SETS_MAX);
    q = q ? q : new_set(v->s, found);
    q->demos++;
    q->fits += fits;
    q->rows += rows;
    q->last = v->demo;
    const bool same =
        found->numbers == q->numbers && found->rank == q->rank && !memcmp(found->dim, q->dim, sizeof q->dim);
    if (!same && (must_fit(name) || fits))
        return mf_err_set(err, MF_EFORMAT, "its steps have another shape or type than in the demos before");
    if (found->numbers && !fits && must_fit(name))
        return mf_err_set(err, MF_EFORMAT, "it has %zu rows and actions have %zu", rows, v->demo->n);
    return v->opts->values && same && q->numbers ? read_numbers(v, set, q, rows, err) : 0;
}

static int add_set(struct survey *v, hid_t set, const char *name, struct mf_err *err)
{
    struct mf_survey_set found = {.rank = 0};
    struct mf_h5_held held = {0};
    size_t rows;
    snprintf(found.name, sizeof found.name, "%s", name);
    int rc = look(set, &found, &rows, &held, err);
    rc = rc ? rc : add_rows(v, set, name, &found, rows, err);
    mf_h5_let_go(&held);
    mf_h5_alive();
    return rc;
}

/* ---- a demo ---- */

/* All datasets of a group, and of those in it. */
static void walk(struct survey *v, const char *group, const char *prefix, int deep)
{
    struct mf_h5_names list;
    struct mf_err err;
    if (mf_h5_list(v->file, group, &list, &err)) {
        note(&v->s->problems, "%s: %s", v->demo->name, err.text);
        return;
    }
    for (size_t i = 0; i < list.n; i++) {
        char path[256], name[128];
        int fits = snprintf(path, sizeof path, "%s/%s", group, list.name[i]);
        if (fits < 0 || fits >= (int)sizeof path ||
            snprintf(name, sizeof name, "%s%s", prefix, list.name[i]) >= (int)sizeof name - 1)
            continue; /* a name that long is nobody's key */
        hid_t object;
        int rc = mf_h5_object(v->file, path, &object, &err);
        H5I_type_t type = rc ? H5I_BADID : H5Iget_type(object);
        if (type == H5I_GROUP && deep < DEEP)
            walk(v, path, strcat(name, "/"), deep + 1);
        else if (rc || (type == H5I_DATASET && add_set(v, object, name, &err)))
            note(&v->s->problems, "%s: %s: %s", v->demo->name, name, err.text);
        mf_h5_close(object);
    }
    mf_h5_free_names(&list);
}

/* false: it cannot be reached, and there is nothing more to say about it. */
static bool count_steps(struct survey *v)
{
    hsize_t dim[2] = {0};
    struct mf_err err;
    char path[96];
    hid_t set = -1;
    int rank;
    snprintf(path, sizeof path, "data/%s/actions", v->demo->name);
    int has = mf_h5_has(v->file, path, &err);
    bool reached = has >= 0 && (has == 0 || mf_h5_object(v->file, path, &set, &err) == 0);
    if (!reached)
        note(&v->s->problems, "%s: %s", v->demo->name, err.text);
    else if (!has)
        note(&v->s->problems, "%s: there are no actions", v->demo->name);
    else if (mf_h5_shape(set, 2, &rank, dim, &err))
        note(&v->s->problems, "%s: actions: %s", v->demo->name, err.text);
    else if (dim[0] == 0)
        note(&v->s->problems, "%s: there are no steps", v->demo->name);
    v->demo->n = (size_t)dim[0];
    mf_h5_close(set);
    return reached;
}

static void check_samples(struct survey *v, const char *path)
{
    struct mf_err err;
    int64_t samples = -1;
    hid_t demo;
    int has = mf_h5_object(v->file, path, &demo, &err);
    has = has ? has : mf_h5_attr_int(demo, "num_samples", &samples, &err);
    mf_h5_close(demo);
    if (has < 0)
        note(&v->s->problems, "%s: %s", v->demo->name, err.text);
    else if (has && samples != (int64_t)v->demo->n)
        note(&v->s->problems, "%s: attribute num_samples is %lld and there are %zu actions", v->demo->name,
             (long long)samples, v->demo->n);
}

static void survey_demo(struct survey *v)
{
    struct mf_survey *s = v->s;
    struct mf_err err;
    char path[64];
    snprintf(path, sizeof path, "data/%s", v->demo->name);
    v->unclipped = false;
    if (!count_steps(v))
        return;
    if (!v->no_obs && mf_demo_has_obs(v->file, v->path, v->demo, &err)) {
        note(&s->problems, "%s", err.text);
        v->no_obs = true; /* and so have the others, most likely */
    }
    walk(v, path, "", 0);
    for (int i = 0; i < s->n_sets; i++)
        if (s->set[i].last != v->demo)
            note(!strncmp(s->set[i].name, "obs/", 4) ? &s->problems : &s->warnings,
                 "%s: there is no %s, which demos before it have", v->demo->name, s->set[i].name);
    check_samples(v, path);
    s->total += v->demo->n;
}

/* ---- the file ---- */

static void survey_masks(struct survey *v)
{
    struct mf_h5_names masks, names;
    struct mf_err err;
    char path[300];
    int has = mf_h5_has(v->file, "mask", &err);
    if (has == 0)
        return;
    if (has < 0 || mf_h5_list(v->file, "mask", &masks, &err)) {
        note(&v->s->problems, "%s", err.text);
        return;
    }
    v->s->mask = mf_xcalloc(masks.n + 1, sizeof *v->s->mask);
    for (size_t i = 0; i < masks.n; i++) {
        snprintf(path, sizeof path, "mask/%s", masks.name[i]);
        if (mf_h5_read_strings(v->file, path, &names, &err)) {
            note(&v->s->problems, "filter key %s: %s", masks.name[i], err.text);
            continue;
        }
        for (size_t j = 0; j < names.n; j++) {
            snprintf(path, sizeof path, "data/%s", names.name[j]);
            if (mf_h5_has(v->file, path, &err) == 0)
                note(&v->s->problems, "filter key %s: it names %s, which is not in /data", masks.name[i],
                     names.name[j]);
        }
        v->s->mask[v->s->n_masks++] = (struct mf_survey_mask){mf_xstrdup(masks.name[i]), names.n};
        mf_h5_free_names(&names);
    }
    mf_h5_free_names(&masks);
}

static void survey_attributes(struct survey *v)
{
    struct mf_err err;
    int64_t total = -1;
    hid_t data;
    if (mf_h5_object(v->file, "data", &data, &err))
        return;
    int args = mf_h5_attr_text(data, "env_args", &v->s->env_args, &err);
    if (args < 0)
        note(&v->s->problems, "/data: %s", err.text);
    else if (!args)
        note(&v->s->warnings, "/data has no attribute env_args, which says what environment this is");
    int has = mf_h5_attr_int(data, "total", &total, &err);
    if (has < 0)
        note(&v->s->problems, "/data: %s", err.text);
    else if (has && total != (int64_t)v->s->total && !v->opts->filter)
        note(&v->s->warnings, "/data: attribute total is %lld and the demos have %zu steps", (long long)total,
             v->s->total);
    mf_h5_close(data);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct mf_survey_set *)a)->name, ((const struct mf_survey_set *)b)->name);
}

static int survey(struct survey *v, struct mf_err *err)
{
    struct mf_survey *s = v->s;
    hsize_t bytes = 0;
    int rc = mf_demo_list(v->file, v->path, v->opts->filter, &s->demo, &s->n_demos, err);
    if (rc)
        return rc;
    H5Fget_filesize(v->file, &bytes);
    s->bytes = bytes;
    for (size_t i = 0; i < s->n_demos; i++) {
        v->demo = &s->demo[i];
        survey_demo(v);
        if (v->opts->progress)
            v->opts->progress(v->opts->arg, i + 1, s->n_demos);
    }
    for (int i = 0; i < s->n_sets; i++) {
        struct mf_survey_set *q = &s->set[i];
        q->by_step = q->fits == q->demos;
        if (q->demos < s->n_demos)
            note(!strncmp(q->name, "obs/", 4) ? &s->problems : &s->warnings, "%s: only %zu of %zu demos have it",
                 q->name, q->demos, s->n_demos);
        if (!q->by_step && q->fits > q->demos / 2 && !must_fit(q->name))
            note(&s->warnings, "%s: it has a row for each step in %zu of %zu demos only", q->name, q->fits, q->demos);
    }
    survey_masks(v);
    survey_attributes(v);
    if (s->n_sets)
        qsort(s->set, (size_t)s->n_sets, sizeof *s->set, by_name);
    return 0;
}

int mf_survey(struct mf_survey *s, const char *path, const struct mf_survey_opts *opts, struct mf_err *err)
{
    struct survey v = {.s = s, .opts = opts, .path = path, .file = -1};
    *s = (struct mf_survey){0};
    mf_h5_guard(path);
    int rc = mf_h5_open(&v.file, path, err);
    rc = rc ? rc : survey(&v, err);
    mf_h5_close(v.file);
    rc = mf_h5_unguard(rc, path, err);
    free(v.band);
    if (rc)
        mf_survey_release(s);
    return rc;
}

static void release_notes(struct mf_survey_notes *n)
{
    for (size_t i = 0; i < n->n && i < MF_SURVEY_TEXTS; i++)
        free(n->text[i]);
}

void mf_survey_release(struct mf_survey *s)
{
    for (int i = 0; i < s->n_sets; i++)
        free(s->set[i].moments);
    for (int i = 0; i < s->n_masks; i++)
        free(s->mask[i].name);
    release_notes(&s->problems);
    release_notes(&s->warnings);
    free(s->set);
    free(s->mask);
    free(s->demo);
    free(s->env_args);
    *s = (struct mf_survey){0};
}
