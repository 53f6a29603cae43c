#include "data/demos.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/demo_cache.h"
#include "data/demo_list.h"

enum { STEP_MAX = 1 << 26 }; /* numbers in one */

struct reading {
    struct mf_demos *d;
    const char *path;
    hid_t file;
    uint64_t bytes; /* of what was accepted so far, as mf_h5_bound counts */
};

/* Open one dataset of a demo: *k but for its name, and its rows. */
static int open_set(struct reading *r, const char *path, hid_t *set, size_t *rows, struct mf_demo_column *k,
                    struct mf_err *err)
{
    hsize_t shape[MF_OBS_RANK + 1] = {0};
    enum mf_dtype dtype = MF_F32;
    int rank, rc;
    *set = H5Oopen(r->file, path, H5P_DEFAULT);
    if (*set < 0 && !mf_h5_has(r->file, path)) /* asked only then, since it goes the whole way to the dataset again */
        return mf_err_set(err, MF_EFORMAT, "'%s' has no /%s", r->path, path);
    if ((rc = mf_h5_shape(*set, MF_OBS_RANK + 1, &rank, shape, err)) == 0 && rank == 0)
        rc = mf_err_set(err, MF_EFORMAT, "it is a single number");
    rc = rc ? rc : mf_h5_numbers(*set, &dtype, err);
    k->is.u8 = dtype == MF_U8;
    k->count = 1;
    for (int i = 0; i < (rank > 1 ? rank - 1 : 1) && rc == 0; i++) {
        hsize_t dim = rank > 1 ? shape[i + 1] : 1; /* (n) are n steps of one number */
        if (dim < 1 || dim > STEP_MAX / k->count)
            rc = mf_err_set(err, MF_EFORMAT, "its steps have no numbers, or more than %d", STEP_MAX);
        k->is.dim[i] = (int)dim;
        k->count *= (size_t)dim;
    }
    k->bytes = k->count * (k->is.u8 ? 1 : sizeof(float));
    rc = rc ? rc : mf_h5_bound(r->file, *set, &r->bytes, err);
    rc = rc ? rc : mf_h5_readable(*set, err);
    if (rc) {
        mf_h5_close(*set);
        return mf_err_at(err, "'%s', /%s", r->path, path);
    }
    *rows = (size_t)shape[0];
    return 0;
}

/* "84 x 84 x 3 bytes" */
static const char *form(const struct mf_obs *o, char text[64])
{
    int n = 0;
    for (int i = 0; i < mf_obs_rank(o); i++)
        n += snprintf(text + n, 64 - (size_t)n, "%s%d", i ? " x " : "", o->dim[i]);
    snprintf(text + n, 64 - (size_t)n, o->u8 ? " bytes" : " numbers");
    return text;
}

static bool same_form(const struct mf_obs *a, const struct mf_obs *b)
{
    return a->u8 == b->u8 && !memcmp(a->dim, b->dim, sizeof a->dim);
}

/* Column i of a demo: as all others in form and, but for the actions, as many rows as there are actions. */
static int check_column(struct reading *r, struct mf_demo *demo, int i, struct mf_err *err)
{
    struct mf_demos *d = r->d;
    struct mf_demo_column found = {.count = 0}, *k = &d->column[i];
    char at[160], x[64], y[64];
    size_t rows = 0;
    hid_t set = -1;
    snprintf(at, sizeof at, "data/%s/%s%s", demo->name, i ? "obs/" : "", k->is.name);
    int rc = open_set(r, at, &set, &rows, &found, err);
    if (rc)
        return rc;
    strcpy(found.is.name, k->is.name);
    if (!k->count)
        *k = found;
    if (i == MF_DEMO_ACTIONS)
        demo->n = rows;
    if (!same_form(&k->is, &found.is))
        rc = mf_err_set(err, MF_EFORMAT, "'%s': a step of %s%s is %s in %s and %s in %s", r->path, i ? "obs/" : "",
                        k->is.name, form(&k->is, x), d->demo[0].name, form(&found.is, y), demo->name);
    else if (i == MF_DEMO_ACTIONS && (found.is.u8 || mf_obs_rank(&found.is) != 1))
        rc = mf_err_set(err, MF_EFORMAT, "'%s': a step of /%s is %s, and actions are floats in a row", r->path, at,
                        form(&found.is, x));
    else if (rows == 0)
        rc = mf_err_set(err, MF_EFORMAT, "'%s': %s has no steps", r->path, demo->name);
    else if (rows != demo->n)
        rc = mf_err_set(err, MF_EFORMAT, "'%s': %s has %zu actions and %zu of obs/%s", r->path, demo->name, demo->n,
                        rows, k->is.name);
    else
        mf_demo_cache_add(d->cache, set, rows, k->bytes);
    d->bytes += rows * k->bytes;
    mf_h5_close(set);
    return rc;
}

static int check_demo(struct reading *r, struct mf_demo *demo, struct mf_err *err)
{
    int rc = mf_demo_has_obs(r->file, r->path, demo, err);
    for (int i = 0; i < r->d->n_columns && rc == 0; i++)
        rc = check_column(r, demo, i, err);
    r->d->total += demo->n;
    if (rc == 0 && r->d->total >= UINT32_MAX)
        rc = mf_err_set(err, MF_EFORMAT, "'%s' has more than %u steps", r->path, UINT32_MAX);
    return rc;
}

static bool is_plain_key(hid_t file, const char *path)
{
    hid_t set = H5Oopen(file, path, H5P_DEFAULT), space = -1, type = -1;
    bool dataset = H5Iget_type(set) == H5I_DATASET;
    if (dataset)
        space = H5Dget_space(set), type = H5Dget_type(set);
    bool plain = dataset && H5Sget_simple_extent_ndims(space) == 2 && H5Tget_class(type) == H5T_FLOAT;
    mf_h5_close(type);
    mf_h5_close(space);
    mf_h5_close(set);
    return plain;
}

/* The columns' names: actions, then observations as asked for, or the plain ones of the first demo. */
static int find_columns(struct reading *r, const struct mf_demos_opts *opts, struct mf_err *err)
{
    struct mf_demos *d = r->d;
    struct mf_h5_names list = {0};
    char obs[64], path[160];
    snprintf(obs, sizeof obs, "data/%s/obs", d->demo[0].name);
    bool given = opts->n_keys > 0;
    if (!given && mf_h5_has(r->file, obs) && mf_h5_list(r->file, obs, &list, err))
        return mf_err_at(err, "'%s'", r->path);
    size_t n = given ? (size_t)opts->n_keys : list.n;
    int rc = 0;
    strcpy(d->column[d->n_columns++].is.name, "actions");
    for (size_t i = 0; i < n && rc == 0; i++) {
        const char *name = given ? opts->keys[i] : list.name[i];
        if (!given && (snprintf(path, sizeof path, "%s/%s", obs, name), !is_plain_key(r->file, path)))
            continue;
        if (d->n_columns == MF_DEMO_COLUMNS || strlen(name) >= sizeof d->column->is.name)
            rc = mf_err_set(err, MF_EFORMAT, "'%s' has more than %d observation keys, or one longer than %zu letters",
                            r->path, MF_DEMO_COLUMNS - 1, sizeof d->column->is.name - 1);
        else
            strcpy(d->column[d->n_columns++].is.name, name);
    }
    mf_h5_free_names(&list);
    if (rc == 0 && n && d->n_columns == 1)
        rc = mf_err_set(err, MF_EFORMAT,
                        "'%s': no key of /%s has steps of 1-D floats: name those to be read, images too", r->path, obs);
    return rc;
}

static int open_all(struct reading *r, const struct mf_demos_opts *opts, struct mf_err *err)
{
    struct mf_demos *d = r->d;
    int64_t chunk = 1;
    int rc = mf_demo_list(r->file, r->path, opts->filter, &d->demo, &d->n_demos, err);
    if (rc || (rc = find_columns(r, opts, err)))
        return rc;
    hid_t data = H5Gopen2(r->file, "data", H5P_DEFAULT);
    if ((rc = mf_h5_attr_text(data, "env_args", &d->env_args, err)) >= 0)
        rc = mf_h5_attr_int(data, "mf_action_chunk", &chunk, err);
    mf_h5_close(data);
    if (rc < 0)
        return mf_err_at(err, "'%s', /data", r->path);
    if (chunk != 1)
        return mf_err_set(err, MF_EFORMAT,
                          "'%s' was recorded in chunks of %" PRId64 " actions with one observation each: record "
                          "demonstrations with policy.n_action_steps=1",
                          r->path, chunk);
    rc = 0;
    for (size_t i = 0; i < d->n_demos && rc == 0; i++)
        rc = check_demo(r, &d->demo[i], err);
    return rc;
}

int mf_demos_open(struct mf_demos *d, const char *path, const struct mf_demos_opts *opts, struct mf_err *err)
{
    *d = (struct mf_demos){0};
    struct reading r = {.d = d, .path = path};
    int rc = mf_h5_open(&r.file, path, err);
    if (rc)
        return rc;
    d->cache = mf_demo_cache_new(r.file, path, opts->cache);
    mf_h5_guard(path);
    rc = open_all(&r, opts, err);
    mf_h5_guard(NULL);
    if (rc)
        mf_demos_close(d);
    return rc;
}

int mf_demos_env(const char *path, char name[64], struct mf_err *err)
{
    hid_t file;
    char *text = NULL;
    struct mf_err none;
    int rc = mf_h5_open(&file, path, err);
    *name = 0;
    if (rc)
        return rc;
    mf_h5_guard(path);
    hid_t data = mf_h5_has(file, "data") ? H5Oopen(file, "data", H5P_DEFAULT) : -1;
    if (data >= 0 && mf_h5_attr_text(data, "env_args", &text, &none) > 0) {
        json_t *args = json_loads(text, 0, NULL);
        const char *said = json_string_value(json_object_get(args, "env_name"));
        snprintf(name, 64, "%s", said && strlen(said) < 64 ? said : "");
        json_decref(args);
    }
    free(text);
    mf_h5_close(data);
    mf_h5_close(file);
    mf_h5_guard(NULL);
    return 0;
}

void mf_demos_close(struct mf_demos *d)
{
    mf_demo_cache_free(d->cache);
    free(d->demo);
    free(d->env_args);
    *d = (struct mf_demos){0};
}
