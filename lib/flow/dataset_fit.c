/* dataset_fit.c - the fit of a policy to its data: the normaliser, and the tokens that it must know. */
#include "flow/dataset.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/moments.h"
#include "base/stop.h"
#include "demos/bins.h"

static const double flat = 1e-4;                             /* below it, a range or deviation counts as 0 */
static const struct mf_moments bytes = {.n = 1, .max = 255}; /* of a uint8 that is no picture */

/* ---- the normaliser ---- */

/* x*scale + offset maps `low` to -1 and `high` to 1. */
static void stretch(double low, double high, float *scale, float *offset)
{
    const double a = high - low < flat ? 1 : 2 / (high - low + 1e-6);
    *scale = (float)a;
    *offset = (float)(-1 - a * low);
}

static void fit_one(const struct mf_moments *m, enum mf_normalizer how, double floor, float *scale, float *offset)
{
    double range = fmax(m->max - m->min, floor), deviation = sqrt(m->square / (double)m->n);
    double a = how == MF_LIMITS ? (range < flat ? 1 : 2 / range) : (deviation < flat ? 1 : 1 / deviation);
    double middle = how == MF_LIMITS ? (m->min + m->max) / 2 : m->mean;
    *scale = how == MF_IDENTITY ? 1 : (float)a;
    *offset = how == MF_IDENTITY ? 0 : (float)(-a * middle);
}

/* The number of features of a column, each with its own range: all points of a cloud share theirs. The network
 * normalises pictures. */
static size_t features(const struct mf_demo_column *k)
{
    return mf_obs_is_picture(&k->is) ? 0 : (size_t)k->is.dim[mf_obs_rank(&k->is) - 1];
}

/* Of every feature of every column: its moments, and in a second pass its histogram. */
struct tally {
    struct mf_moments *m;
    struct mf_bins *bins; /* NULL: the first pass */
};

static bool counts(const struct mf_demo_column *k)
{
    return features(k) && !k->is.u8 && !mf_obs_is_code(&k->is);
}

/* Adds one demonstration's column to the tally, whose features begin at `at`. */
static int read_column(struct mf_demos *d, int column, size_t demo, const struct tally *t, size_t at,
                       struct mf_err *err)
{
    size_t wide = features(&d->column[column]), rows_of = d->column[column].count / wide, n;
    for (size_t from = 0; from < d->demo[demo].n; from += n) {
        const void *rows;
        int rc = mf_demos_rows(d, column, demo, from, &rows, &n, err);
        if (rc)
            return rc;
        const float *x = rows;
        for (size_t i = 0; i < n * rows_of; i++)
            for (size_t j = 0; j < wide; j++)
                if (t->bins)
                    mf_bins_add(&t->bins[at + j], (double)x[i * wide + j]);
                else
                    mf_moments_add(&t->m[at + j], (double)x[i * wide + j]);
    }
    return 0;
}

static int read_all(struct mf_demos *d, const struct mf_fit *f, const struct tally *t, struct mf_err *err)
{
    for (size_t i = 0; i < d->n_demos; i++) {
        size_t at = 0;
        for (int k = 0; k < d->n_columns; at += features(&d->column[k++]))
            if (counts(&d->column[k]) && read_column(d, k, i, t, at, err))
                return err->code;
        if (mf_stop_any(err))
            return err->code;
        if (f->progress)
            f->progress(f->arg, i + 1, d->n_demos);
    }
    return 0;
}

static int count_bins(struct mf_demos *d, const struct mf_fit *f, struct tally *t, size_t all, struct mf_err *err)
{
    int rc = mf_alloc((void **)&t->bins, all * sizeof *t->bins, "the histograms of observations", err);
    if (rc)
        return rc;
    for (size_t i = 0; i < all; i++)
        t->bins[i].low = t->m[i].min, t->bins[i].high = t->m[i].max;
    return read_all(d, f, t, err);
}

/* The scale and offset of each number of a column, whose features begin at `at` of the tally. */
static void fit_column(const struct mf_demo_column *k, enum mf_normalizer how, double floor, const struct tally *t,
                       size_t at, float *scale, float *offset)
{
    const size_t wide = features(k), count = (size_t)mf_obs_features(&k->is);
    for (size_t j = 0; j < count; j++) {
        const size_t i = at + j % wide;
        if (mf_obs_is_code(&k->is))
            fit_one(&bytes, MF_IDENTITY, 0, &scale[j], &offset[j]);
        else if (k->is.u8)
            fit_one(&bytes, how == MF_IDENTITY ? how : MF_LIMITS, 0, &scale[j], &offset[j]);
        else if (how == MF_QUANTILE)
            stretch(mf_bins_quantile(&t->bins[i], .01), mf_bins_quantile(&t->bins[i], .99), &scale[j], &offset[j]);
        else
            fit_one(&t->m[i], how, floor, &scale[j], &offset[j]);
    }
}

static void fit_all(struct mf_policy *p, const struct mf_demos *d, const struct mf_fit *f, const struct tally *t)
{
    float *scale = p->action_scale, *offset = p->action_offset;
    size_t at = 0;
    for (int k = 0; k < d->n_columns; at += features(&d->column[k++])) {
        const bool actions = k == MF_DEMO_ACTIONS;
        fit_column(&d->column[k], actions && !f->actions ? MF_IDENTITY : f->how, f->floor, t, at, scale, offset);
        scale = actions ? p->obs_scale : scale + mf_obs_features(&d->column[k].is);
        offset = actions ? p->obs_offset : offset + mf_obs_features(&d->column[k].is);
    }
}

int mf_dataset_fit(struct mf_policy *p, struct mf_demos *d, const struct mf_fit *f, struct mf_err *err)
{
    struct tally t = {0};
    size_t all = 0;
    for (int k = 0; k < d->n_columns; k++)
        all += features(&d->column[k]);
    int rc = mf_alloc((void **)&t.m, all * sizeof *t.m, "the ranges of observations", err);
    if (rc)
        return rc;
    rc = read_all(d, f, &t, err);
    if (rc == 0 && f->how == MF_QUANTILE)
        rc = count_bins(d, f, &t, all, err);
    if (rc == 0)
        fit_all(p, d, f, &t);
    p->has_normalizer = rc == 0;
    free(t.bins);
    free(t.m);
    return rc;
}

/* ---- tokens ---- */

static int check_tokens(const struct mf_policy_spec *s, struct mf_demos *d, int column, size_t demo, struct mf_err *err)
{
    size_t n;
    for (size_t from = 0; from < d->demo[demo].n; from += n) {
        const void *rows;
        int rc = mf_demos_rows(d, column, demo, from, &rows, &n, err);
        for (size_t i = 0; rc == 0 && i < n * d->column[column].count; i++) {
            const float id = ((const float *)rows)[i];
            if (!(id >= 0 && id < (float)s->net.vocabulary))
                rc = mf_err_set(err, MF_EUSAGE,
                                "obs/tokens of %s has the token %g, and the policy has embeddings of "
                                "policy.vocabulary=%d: give a fresh policy more, or demonstrations by the tokenizer "
                                "that it was trained with",
                                d->demo[demo].name, (double)id, s->net.vocabulary);
        }
        if (rc)
            return rc;
    }
    return 0;
}

int mf_dataset_check(const struct mf_policy_spec *s, struct mf_demos *d, struct mf_err *err)
{
    int rc = 0;
    if (mf_demos_tokenizer(d) || !(s->net.net->sizes & MF_SIZE(vocabulary)))
        return 0;
    for (int k = 0; k < d->n_columns; k++)
        for (size_t i = 0; rc == 0 && i < d->n_demos && !strcmp(d->column[k].is.name, MF_OBS_TOKENS); i++)
            rc = check_tokens(s, d, k, i, err);
    return rc;
}
