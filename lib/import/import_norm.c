#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "demos/demos.h"
#include "import/npz.h"
#include "flow/checkpoint_priv.h"
#include "import/import.h"
#include "stream/json.h"

/* Scale 2 / range and offset -1 - 2 low / range. A large offset has a large rounding error, a scale a negligible one:
 * of the float32 scales nearby, take one whose offset is nearly exact. Returns the rounding error that is left. */
static double stretch_one(double low, double range, float *scale, float *offset)
{
    enum { NEARBY = 4096 }; /* float32 steps of the scale: at most 5e-4 of it */
    const double enough = 1e-4;
    double left = INFINITY;
    float s = (float)(2 / range);
    *scale = s;
    *offset = (float)(-1 - 2 / range * low);
    if (fabsf(*offset) < MF_FAR)
        return 0;
    for (int i = 0; i < NEARBY && left > enough; i++, s = nextafterf(s, INFINITY)) {
        const double want = -1 - (double)s * low, off = fabs((double)(float)want - want);
        if (off < left)
            *scale = s, *offset = (float)want, left = off;
    }
    return left;
}

/* DPPO's and ReinFlow's: 2 (x - min) / (max - min + 1e-6) - 1. */
static int stretch(float *scale, float *offset, const double *low, const double *high, int n, const char *what,
                   struct mf_err *err)
{
    for (int i = 0; i < n; i++) {
        double range = high[i] - low[i];
        if (!isfinite(range) || range < 0)
            return mf_err_set(err, MF_EFORMAT, "the range of %s %d is from %g to %g", what, i, low[i], high[i]);
        if (stretch_one(low[i], range + 1e-6, &scale[i], &offset[i]) > .01)
            return mf_err_set(err, MF_EFORMAT,
                              "the range of %s %d, from %.9g to %.9g, is too narrow so far from 0 for numbers of 32 "
                              "bits: widen it in the file, or leave this observation out",
                              what, i, low[i], high[i]);
    }
    return 0;
}

/* ---- normalization.npz ---- */

static int stretch_npz(const struct mf_zip *z, const char *what, float *scale, float *offset, int n, struct mf_err *err)
{
    const size_t count = (size_t)n;
    char low[32], high[32], whose[40];
    double *v = calloc(2 * count + 1, sizeof *v);
    if (!v)
        return mf_err_set(err, MF_ENOMEM, "cannot allocate the ranges of %s", what);
    snprintf(low, sizeof low, "%s_min", what);
    snprintf(high, sizeof high, "%s_max", what);
    snprintf(whose, sizeof whose, "the policy's %s", what);
    int rc = mf_npz_read(z, low, v, count, whose, err);
    if (!rc)
        rc = mf_npz_read(z, high, v + count, count, whose, err);
    if (!rc)
        rc = stretch(scale, offset, v, v + count, n, what, err);
    free(v);
    return rc;
}

static int from_npz(struct mf_policy *p, const char *path, struct mf_err *err)
{
    struct mf_zip z;
    int rc = mf_zip_open(&z, path, err);
    if (rc)
        return rc;
    rc = stretch_npz(&z, "obs", p->obs_scale, p->obs_offset, mf_layout_features(&p->spec.obs), err);
    if (!rc)
        rc = stretch_npz(&z, "action", p->action_scale, p->action_offset, p->spec.action_dim, err);
    mf_zip_close(&z);
    return rc;
}

/* ---- norm_stats.json ---- */

/* The first n numbers of the list `part`, from the at'th on; openpi reads as many as it needs, too. */
static int stats_part(const json_t *whose, const char *what, const char *part, size_t at, double *v, size_t n,
                      struct mf_err *err)
{
    const json_t *list = json_object_get(whose, part);
    if (json_array_size(list) < at + n)
        return mf_err_set(err, MF_EFORMAT, "%s.%s has %zu numbers, and the policy needs %zu", what, part,
                          json_array_size(list), at + n);
    for (size_t i = 0; i < n; i++) {
        const json_t *x = json_array_get(list, at + i);
        if (!json_is_number(x))
            return mf_err_set(err, MF_EFORMAT, "element %zu of %s.%s is no number", at + i, what, part);
        v[i] = json_number_value(x);
    }
    return 0;
}

/* By quantiles (pi0.5), or, where there are none, 1/(std + 1e-6) and the mean (pi0). */
static int stretch_stats(const json_t *stats, const char *what, size_t at, float *scale, float *offset, int n,
                         struct mf_err *err)
{
    const json_t *whose = json_object_get(stats, what);
    const bool quantiles = json_is_array(json_object_get(whose, "q01"));
    const size_t count = (size_t)n;
    double *v;
    int rc = mf_alloc((void **)&v, 2 * (count + 1) * sizeof *v, "the statistics of a normaliser", err);
    if (rc)
        return rc;
    if (!(rc = stats_part(whose, what, quantiles ? "q01" : "mean", at, v, count, err)))
        rc = stats_part(whose, what, quantiles ? "q99" : "std", at, v + count, count, err);
    if (!rc && quantiles)
        rc = stretch(scale, offset, v, v + count, n, what, err);
    for (size_t i = 0; i < count && !rc && !quantiles; i++) {
        scale[i] = (float)(1 / (v[count + i] + 1e-6));
        offset[i] = (float)(-v[i] / (v[count + i] + 1e-6));
    }
    free(v);
    return rc;
}

/* The state is all observations but pictures and tokens, in the policy's order. */
static int stretch_state(const json_t *stats, struct mf_policy *p, struct mf_err *err)
{
    size_t state = 0;
    int at = 0, rc = 0;
    for (int i = 0; i < p->spec.obs.n && !rc; i++) {
        const struct mf_obs *o = &p->spec.obs.key[i];
        const int n = mf_obs_features(o);
        if (n && !mf_obs_is_code(o)) {
            rc = stretch_stats(stats, "state", state, p->obs_scale + at, p->obs_offset + at, n, err);
            state += (size_t)n;
        }
        at += n;
    }
    return rc;
}

static int from_stats(struct mf_policy *p, const char *path, struct mf_err *err)
{
    json_t *root;
    int rc = mf_json_open(&root, path, err);
    if (rc)
        return mf_err_at(err, "the normaliser");
    const json_t *stats = json_object_get(root, "norm_stats");
    if (!stats)
        rc = mf_err_set(err, MF_EFORMAT, "it has no 'norm_stats', so that it is no norm_stats.json");
    mf_policy_plain(p);
    if (!rc)
        rc = stretch_state(stats, p, err);
    if (!rc)
        rc = stretch_stats(stats, "actions", 0, p->action_scale, p->action_offset, p->spec.action_dim, err);
    json_decref(root);
    return rc ? mf_err_at(err, "the normaliser %s", path) : 0;
}

/* ---- demonstrations ---- */

bool mf_import_is_demos(const char *from)
{
    return from && (mf_ends(from, ".hdf5") || mf_ends(from, ".h5"));
}

/* The ranges of a column over all demonstrations; the points of a cloud share theirs. */
static int range_of(struct mf_demos *d, int column, double *low, double *high, struct mf_err *err)
{
    const struct mf_demo_column *c = &d->column[column];
    size_t wide = mf_obs_is_cloud(&c->is) ? (size_t)c->is.dim[1] : c->count;
    for (size_t j = 0; j < c->count; j++)
        low[j] = INFINITY, high[j] = -INFINITY;
    for (size_t i = 0; i < d->n_demos; i++)
        for (size_t t = 0, n; t < d->demo[i].n; t += n) {
            const void *rows;
            int rc = mf_demos_rows(d, column, i, t, &rows, &n, err);
            if (rc)
                return rc;
            for (size_t k = 0; k < n * c->count; k++) {
                double x = c->is.u8 ? (double)((const uint8_t *)rows)[k] : (double)((const float *)rows)[k];
                low[k % wide] = fmin(low[k % wide], x);
                high[k % wide] = fmax(high[k % wide], x);
            }
        }
    for (size_t j = wide; j < c->count; j++)
        low[j] = low[j - wide], high[j] = high[j - wide];
    return 0;
}

static int stretch_column(struct mf_demos *d, const char *path, int column, float *scale, float *offset, size_t n,
                          struct mf_err *err)
{
    const struct mf_demo_column *c = &d->column[column];
    if (c->count != n)
        return mf_err_set(err, MF_EFORMAT, "%s of %s has %zu numbers, and the policy's %zu", c->is.name, path, c->count,
                          n);
    double *low = calloc(2 * n, sizeof *low);
    if (!low)
        return mf_err_set(err, MF_ENOMEM, "cannot allocate the ranges of %s", c->is.name);
    int rc = range_of(d, column, low, low + n, err);
    if (!rc)
        rc = stretch(scale, offset, low, low + n, (int)n, c->is.name, err);
    free(low);
    return rc;
}

static int from_demos(struct mf_policy *p, const char *path, struct mf_err *err)
{
    const char *keys[MF_OBS_KEYS];
    struct mf_demos d;
    for (int i = 0; i < p->spec.obs.n; i++)
        keys[i] = p->spec.obs.key[i].name;
    struct mf_demos_opts opts = {.n_keys = p->spec.obs.n, .keys = keys, .cache = 64 << 20};
    int at = 0, rc = mf_demos_open(&d, path, &opts, err);
    if (rc)
        return rc;
    rc = stretch_column(&d, path, MF_DEMO_ACTIONS, p->action_scale, p->action_offset, (size_t)p->spec.action_dim, err);
    for (int i = 0; i < p->spec.obs.n && !rc; i++) {
        const int n = mf_obs_features(&p->spec.obs.key[i]);
        if (n)
            rc = stretch_column(&d, path, MF_DEMO_ACTIONS + 1 + i, p->obs_scale + at, p->obs_offset + at, (size_t)n,
                                err);
        at += n;
    }
    mf_demos_close(&d);
    return rc;
}

int mf_import_demos(const char *path, const struct mf_names *keys, struct mf_layout *obs, int *A, struct mf_err *err)
{
    const char *names[MF_OBS_KEYS];
    struct mf_demos d;
    if (keys->n > MF_OBS_KEYS)
        return mf_err_set(err, MF_EUSAGE, "a policy reads at most %d observations", MF_OBS_KEYS);
    for (int i = 0; i < keys->n; i++)
        names[i] = keys->v[i];
    int rc = mf_demos_open(&d, path, &(struct mf_demos_opts){.n_keys = keys->n, .keys = names, .cache = 1 << 20}, err);
    if (rc)
        return rc;
    *obs = (struct mf_layout){0};
    for (int i = 0; i < keys->n; i++)
        mf_layout_add(obs, &d.column[MF_DEMO_ACTIONS + 1 + i].is);
    *A = (int)d.column[MF_DEMO_ACTIONS].count;
    mf_demos_close(&d);
    return 0;
}

/* ---- the file's own ---- */

/* normalizer.params_dict.KEY.PART, repeated to n numbers: 1; 0: the file lacks it. */
static int own_part(struct mf_import *im, const char *key, const char *part, float *to, int n, struct mf_err *err)
{
    char name[160];
    snprintf(name, sizeof name, "normalizer.params_dict.%s.%s", key, part);
    for (int i = 0; i < im->file.n; i++) {
        const struct mf_torch_tensor *t = &im->file.tensor[i];
        if (!mf_torch_within(t, im->layout.weights) || strcmp(im->key[i], name))
            continue;
        if (t->count == 0 || (size_t)n % t->count)
            return mf_err_set(err, MF_EFORMAT, "%s has %zu numbers, and the policy's %s has %d", t->name, t->count, key,
                              n);
        int rc = mf_torch_read(&im->file, t, 0, t->count, to, err);
        for (size_t j = t->count; j < (size_t)n && !rc; j++)
            to[j] = to[j - t->count];
        return rc ? rc : 1;
    }
    return 0;
}

static int own_key(struct mf_import *im, const char *key, float *scale, float *offset, int n, struct mf_err *err)
{
    int rc = own_part(im, key, "scale", scale, n, err);
    return rc == 1 ? own_part(im, key, "offset", offset, n, err) : rc;
}

/* The normaliser of the whole observation, or of each key: 1; 0: the file lacks a part. */
static int from_file(struct mf_import *im, struct mf_policy *p, struct mf_err *err)
{
    int at = 0, rc = own_key(im, "action", p->action_scale, p->action_offset, p->spec.action_dim, err);
    if (rc != 1 || (rc = own_key(im, "obs", p->obs_scale, p->obs_offset, mf_layout_features(&p->spec.obs), err)))
        return rc;
    rc = 1;
    for (int i = 0; i < p->spec.obs.n && rc == 1; i++) {
        const struct mf_obs *o = &p->spec.obs.key[i];
        const int n = mf_obs_features(o);
        rc = n ? own_key(im, o->name, p->obs_scale + at, p->obs_offset + at, n, err) : 1;
        at += n;
    }
    return rc;
}

int mf_import_normalizer(struct mf_import *im, struct mf_policy *p, const char *from, struct mf_err *err)
{
    int rc = 0;
    if (!from && (rc = from_file(im, p, err)) == 0)
        return mf_err_set(
            err, MF_EUSAGE,
            "%s holds no normaliser: say normalizer=FILE.npz (ReinFlow's and DPPO's normalization.npz), "
            "normalizer=FILE.json (openpi's norm_stats.json), normalizer=FILE.hdf5 (the demonstrations), or "
            "normalizer=identity where it was trained on "
            "numbers as they are",
            im->file.zip.path);
    if (from && mf_ends(from, ".npz"))
        rc = from_npz(p, from, err);
    else if (from && mf_ends(from, ".json"))
        rc = from_stats(p, from, err);
    else if (from && mf_import_is_demos(from))
        rc = from_demos(p, from, err);
    else if (from && strcmp(from, "identity"))
        return mf_err_set(err, MF_EUSAGE, "normalizer=%s is neither identity nor a .npz, .json or .hdf5 file", from);
    else if (from)
        mf_policy_plain(p);
    for (int i = 0; i < p->spec.action_dim && rc >= 0; i++)
        if (!isnormal(p->action_scale[i]) || !isfinite(p->action_offset[i]))
            rc = mf_err_set(
                err, MF_EFORMAT, "the normaliser of %s has scale %g and offset %g for number %d of an action",
                from ? from : im->file.zip.path, (double)p->action_scale[i], (double)p->action_offset[i], i);
    if (rc < 0)
        return rc;
    p->has_normalizer = true;
    return 0;
}
