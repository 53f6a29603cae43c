/* The datasets of a survey: their shapes, ranges and sums. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/stop.h"
#include "demos/survey_priv.h"

enum { BAND = 1 << 20, WIDE_MAX = 1 << 10, SETS_MAX = 4096 }; /* BAND: numbers in memory at once */

void mf_survey_note(struct mf_survey_notes *to, const char *fmt, ...)
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
bool mf_survey_must_fit(const char *name)
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
static void add_band(struct mf_surveying *v, struct mf_survey_set *q, size_t first, size_t rows, size_t row,
                     bool *warned)
{
    for (size_t i = 0; i < rows * row; i++) {
        double x = v->band[i];
        if (isfinite(x))
            mf_moments_add(&q->moments[i % q->wide], x);
        else if (!*warned) {
            mf_survey_note(mf_survey_must_fit(q->name) ? &v->s->problems : &v->s->warnings, "%s: %s[%zu, %zu] is %g",
                           v->demo->name, q->name, first + i / row, i % row, x);
            *warned = true;
        }
        if (is_actions(q) && fabs(x) > 1 && !v->unclipped) {
            mf_survey_note(&v->s->warnings,
                           "%s: actions[%zu, %zu] is %g, outside of the [-1, 1] that environments take", v->demo->name,
                           first + i / row, i % row, x);
            v->unclipped = true;
        }
    }
}

static int make_band(struct mf_surveying *v, size_t numbers, struct mf_err *err)
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

/* Compares the checksum of a dataset of mf-record. */
static int check_sum(struct mf_surveying *v, hid_t set, struct mf_err *err)
{
    uint64_t n, size;
    int rc = H5Aexists(set, "mf_crc32") > 0 ? mf_h5_count(set, &n, &size, err) : 1;
    if (rc > 0 || (rc == 0 && n * size > v->s->bytes)) /* no checksum, or no dataset of mf-record */
        return 0;
    if (rc || (rc = make_band(v, (size_t)(n * size / sizeof *v->band + 1), err)))
        return rc;
    hid_t type = H5Dget_type(set);
    rc = H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, v->band) < 0 ? mf_h5_unread(err, "it cannot be read")
                                                                        : mf_h5_check_crc(set, v->band, n * size, err);
    mf_h5_close(type);
    return rc;
}

static int read_numbers(struct mf_surveying *v, hid_t set, struct mf_survey_set *q, size_t rows, struct mf_err *err)
{
    hsize_t start[MF_RANK_MAX + 1] = {0}, count[MF_RANK_MAX + 1];
    size_t row = 1;
    bool warned = false;
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
            add_band(v, q, at, (size_t)count[0], row, &warned);
        rc = rc ? rc : mf_stop_any(err);
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

/* The form of the dataset, by its header. Its sources stay open in held. */
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

static int add_rows(struct mf_surveying *v, hid_t set, const char *name, const struct mf_survey_set *found, size_t rows,
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
    if (!same && (mf_survey_must_fit(name) || fits))
        return mf_err_set(err, MF_EFORMAT, "its steps have another shape or type than in the demos before");
    if (found->numbers && !fits && mf_survey_must_fit(name))
        return mf_err_set(err, MF_EFORMAT, "it has %zu rows and actions have %zu", rows, v->demo->n);
    if (!v->opts->values || !same || !q->numbers)
        return 0;
    int rc = read_numbers(v, set, q, rows, err);
    return rc ? rc : check_sum(v, set, err);
}

int mf_survey_add(struct mf_surveying *v, hid_t set, const char *name, struct mf_err *err)
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
