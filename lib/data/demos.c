#include "data/demos.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/h5.h"

enum { DIM_MAX = 1 << 20 };

struct reading {
    struct mf_demos *d;
    const char *path;
    hid_t file;
    uint64_t bytes; /* of what was accepted so far, as mf_h5_bound counts */
};

static int by_id(const void *a, const void *b)
{
    int64_t x = ((const struct mf_demo *)a)->id, y = ((const struct mf_demo *)b)->id;
    return (x > y) - (x < y);
}

static bool parse_name(struct mf_demo *demo, const char *name)
{
    int end = 0;
    return strlen(name) < sizeof demo->name && sscanf(name, "demo_%" SCNd64 "%n", &demo->id, &end) == 1 && !name[end] &&
           strcpy(demo->name, name);
}

/* The names of the demos: those of the filter, or all. */
static int names(struct reading *r, const char *filter, struct mf_h5_names *list, struct mf_err *err)
{
    if (!mf_h5_has(r->file, "data"))
        return mf_err_set(err, MF_EFORMAT, "'%s' has no /data: it holds no demonstrations in robomimic's layout",
                          r->path);
    if (!filter) {
        int rc = mf_h5_list(r->file, "data", list, err);
        return rc ? mf_err_at(err, "'%s'", r->path) : 0;
    }
    char mask[256], there[300] = "none";
    snprintf(mask, sizeof mask, "mask/%s", filter);
    if (mf_h5_has(r->file, mask)) {
        int rc = mf_h5_read_strings(r->file, mask, list, err);
        return rc ? mf_err_at(err, "'%s'", r->path) : 0;
    }
    if (mf_h5_has(r->file, "mask") && mf_h5_list(r->file, "mask", list, err) == 0) {
        mf_h5_join(list, there, sizeof there);
        mf_h5_free_names(list);
    }
    return mf_err_set(err, MF_EUSAGE, "'%s' has no filter key '%s'; it has: %s", r->path, filter, there);
}

static int find_demos(struct reading *r, const char *filter, struct mf_err *err)
{
    struct mf_h5_names list = {0};
    struct mf_demos *d = r->d;
    int rc = names(r, filter, &list, err);
    if (rc)
        return rc;
    d->demo = mf_xcalloc(list.n, sizeof *d->demo);
    for (size_t i = 0; i < list.n && rc == 0; i++) {
        char at[64];
        if (!parse_name(&d->demo[d->n_demos], list.name[i]))
            continue; /* other things may lie beside the demos */
        snprintf(at, sizeof at, "data/%s", list.name[i]);
        if (!mf_h5_has(r->file, at))
            rc = mf_err_set(err, MF_EFORMAT, "'%s': filter key '%s' names %s, which is not in /data", r->path, filter,
                            list.name[i]);
        d->n_demos++;
    }
    mf_h5_free_names(&list);
    if (rc == 0 && d->n_demos == 0)
        rc = mf_err_set(err, MF_EFORMAT, "'%s' holds no demo_<number>%s%s", r->path, filter ? " under filter key " : "",
                        filter ? filter : "");
    qsort(d->demo, d->n_demos, sizeof *d->demo, by_id);
    return rc;
}

static bool is_u8(hid_t type)
{
    return H5Tget_class(type) == H5T_INTEGER && H5Tget_size(type) == 1 && H5Tget_sign(type) == H5T_SGN_NONE;
}

/* Open one dataset of a demo: rows of floats of at most `dims` dimensions, or, when those are several, of bytes. */
static int open_set(struct reading *r, const char *path, int dims, hid_t *set, size_t *rows, struct mf_obs *row,
                    struct mf_err *err)
{
    hsize_t shape[1 + MF_OBS_RANK] = {0, 1};
    int64_t size = 1;
    int rank, rc;
    if (!mf_h5_has(r->file, path))
        return mf_err_set(err, MF_EFORMAT, "'%s' has no /%s", r->path, path);
    *set = H5Oopen(r->file, path, H5P_DEFAULT);
    hid_t type = H5Iget_type(*set) == H5I_DATASET ? H5Dget_type(*set) : -1;
    if ((rc = mf_h5_shape(*set, 1 + dims, &rank, shape, err)) == 0 && rank == 0)
        rc = mf_err_set(err, MF_EFORMAT, "it is a single number");
    row->u8 = dims > 1 && is_u8(type);
    if (rc == 0 && H5Tget_class(type) != H5T_FLOAT && !row->u8)
        rc = mf_err_set(err, MF_EFORMAT, "it does not hold floats%s", dims > 1 ? " or bytes" : "");
    for (int i = 0; rc == 0 && i < (rank > 1 ? rank - 1 : 1); i++) {
        if (shape[1 + i] < 1 || shape[1 + i] > DIM_MAX || (size *= (int64_t)shape[1 + i]) > DIM_MAX)
            rc = mf_err_set(err, MF_EFORMAT, "%llu numbers in a step make no sense", (unsigned long long)shape[1 + i]);
        row->dim[i] = (int)shape[1 + i];
    }
    mf_h5_close(type);
    rc = rc ? rc : mf_h5_bound(r->file, *set, &r->bytes, err);
    if (rc) {
        mf_h5_close(*set);
        return mf_err_at(err, "'%s', /%s", r->path, path);
    }
    *rows = (size_t)shape[0];
    return 0;
}

static int check_demo(struct reading *r, struct mf_demo *demo, struct mf_err *err)
{
    struct mf_demos *d = r->d;
    char at[160];
    hid_t set;
    size_t rows;
    int rc;
    snprintf(at, sizeof at, "data/%s/obs", demo->name);
    if (!mf_h5_has(r->file, at)) {
        snprintf(at, sizeof at, "data/%s/states", demo->name);
        if (mf_h5_has(r->file, at))
            return mf_err_set(err, MF_EFORMAT,
                              "'%s' holds simulator states and no observations (a raw robosuite recording): convert "
                              "it with python -m robomimic.scripts.dataset_states_to_obs --dataset FILE --output_name "
                              "low_dim.hdf5 --done_mode 2",
                              r->path);
        return mf_err_set(err, MF_EFORMAT, "'%s': %s has no obs", r->path, demo->name);
    }
    snprintf(at, sizeof at, "data/%s/actions", demo->name);
    struct mf_obs action = {0};
    if ((rc = open_set(r, at, 1, &set, &demo->n, &action, err)))
        return rc;
    mf_h5_close(set);
    if (demo->n == 0)
        return mf_err_set(err, MF_EFORMAT, "'%s': %s has no steps", r->path, demo->name);
    if (!d->action_dim)
        d->action_dim = action.dim[0];
    if (action.dim[0] != d->action_dim)
        return mf_err_set(err, MF_EFORMAT, "'%s': actions have %d numbers in %s and %d in %s", r->path, d->action_dim,
                          d->demo[0].name, action.dim[0], demo->name);
    for (int k = 0; k < d->n_keys; k++) {
        struct mf_obs *key = &d->key[k], found = {0};
        snprintf(at, sizeof at, "data/%s/obs/%s", demo->name, key->name);
        if ((rc = open_set(r, at, MF_OBS_RANK, &set, &rows, &found, err)))
            return rc;
        mf_h5_close(set);
        if (!key->dim[0]) {
            memcpy(key->dim, found.dim, sizeof key->dim);
            key->u8 = found.u8;
            d->obs_dim += mf_obs_size(key);
        }
        if (memcmp(key->dim, found.dim, sizeof key->dim) || key->u8 != found.u8)
            return mf_err_set(err, MF_EFORMAT, "'%s': obs/%s has %d numbers in %s and %d in %s%s", r->path, key->name,
                              mf_obs_size(key), d->demo[0].name, mf_obs_size(&found), demo->name,
                              mf_obs_size(key) == mf_obs_size(&found) ? ", of another shape or type" : "");
        if (rows != demo->n)
            return mf_err_set(err, MF_EFORMAT, "'%s': %s has %zu actions and %zu of obs/%s", r->path, demo->name,
                              demo->n, rows, d->key[k].name);
    }
    demo->start = d->total;
    d->total += demo->n;
    return 0;
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

/* Names of the keys: as asked for, or the plain ones of the first demo. */
static int find_keys(struct reading *r, const struct mf_demos_opts *opts, struct mf_err *err)
{
    struct mf_demos *d = r->d;
    struct mf_h5_names list = {0};
    char obs[64], path[160];
    snprintf(obs, sizeof obs, "data/%s/obs", d->demo[0].name);
    bool given = opts && opts->n_keys;
    if (!given && mf_h5_has(r->file, obs) && mf_h5_list(r->file, obs, &list, err))
        return mf_err_at(err, "'%s'", r->path);
    size_t n = given ? (size_t)opts->n_keys : list.n;
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        const char *name = given ? opts->keys[i] : list.name[i];
        if (!given && (snprintf(path, sizeof path, "%s/%s", obs, name), !is_plain_key(r->file, path)))
            continue;
        if (d->n_keys == MF_DEMO_KEYS || strlen(name) >= sizeof d->key->name)
            rc = mf_err_set(err, MF_EFORMAT, "'%s' has more than %d observation keys, or one longer than %zu letters",
                            r->path, MF_DEMO_KEYS, sizeof d->key->name - 1);
        else
            strcpy(d->key[d->n_keys++].name, name);
    }
    mf_h5_free_names(&list);
    if (rc == 0 && n && !d->n_keys)
        rc = mf_err_set(err, MF_EFORMAT, "'%s': no key of %s has steps of 1-D floats", r->path, obs);
    return rc;
}

/* (n, dim) of the file into columns [at, at + dim) of `to`, whose rows are `width` floats. */
static int read_columns(struct reading *r, const char *path, float *to, size_t n, size_t width, size_t at, size_t dim,
                        struct mf_err *err)
{
    hid_t set = H5Dopen2(r->file, path, H5P_DEFAULT);
    hid_t memory = H5Screate_simple(2, (hsize_t[]){n, width}, NULL);
    H5Sselect_hyperslab(memory, H5S_SELECT_SET, (hsize_t[]){0, at}, NULL, (hsize_t[]){n, dim}, NULL);
    herr_t rc = H5Dread(set, H5T_NATIVE_FLOAT, memory, H5S_ALL, H5P_DEFAULT, to);
    char why[400];
    if (rc < 0)
        mf_h5_reason(why);
    mf_h5_close(memory);
    mf_h5_close(set);
    if (rc < 0)
        return mf_err_set(err, MF_EFORMAT, "'%s': cannot read /%s: %s", r->path, path, why);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < dim; j++)
            if (!isfinite(to[i * width + at + j]))
                return mf_err_set(err, MF_EMATH, "'%s': /%s[%zu, %zu] is %g", r->path, path, i, j,
                                  (double)to[i * width + at + j]);
    return 0;
}

static int read_demo(struct reading *r, const struct mf_demo *demo, struct mf_err *err)
{
    struct mf_demos *d = r->d;
    char path[160];
    size_t O = (size_t)d->obs_dim, A = (size_t)d->action_dim, at = 0;
    snprintf(path, sizeof path, "data/%s/actions", demo->name);
    int rc = read_columns(r, path, d->actions + demo->start * A, demo->n, A, 0, A, err);
    for (int k = 0; k < d->n_keys && rc == 0; k++) {
        snprintf(path, sizeof path, "data/%s/obs/%s", demo->name, d->key[k].name);
        rc = read_columns(r, path, d->obs + demo->start * O, demo->n, O, at, (size_t)mf_obs_size(&d->key[k]), err);
        at += (size_t)mf_obs_size(&d->key[k]);
    }
    return rc;
}

static int read_all(struct reading *r, const struct mf_demos_opts *opts, struct mf_err *err)
{
    struct mf_demos *d = r->d;
    int64_t chunk = 1;
    int rc = find_demos(r, opts ? opts->filter : NULL, err);
    if (rc || (rc = find_keys(r, opts, err)))
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
    for (size_t i = 0; i < d->n_demos; i++)
        if ((rc = check_demo(r, &d->demo[i], err)))
            return rc;
    if ((rc = mf_alloc((void **)&d->obs, d->total * (size_t)d->obs_dim * sizeof *d->obs, "observations", err)) ||
        (rc = mf_alloc((void **)&d->actions, d->total * (size_t)d->action_dim * sizeof *d->actions, "actions", err)))
        return rc;
    for (size_t i = 0; i < d->n_demos && rc == 0; i++)
        rc = read_demo(r, &d->demo[i], err);
    return rc;
}

int mf_demos_read(struct mf_demos *d, const char *path, const struct mf_demos_opts *opts, struct mf_err *err)
{
    *d = (struct mf_demos){0};
    struct reading r = {.d = d, .path = path, .file = -1};
    int rc = mf_h5_open(&r.file, path, err);
    if (rc)
        return rc;
    rc = read_all(&r, opts, err);
    mf_h5_close(r.file);
    if (rc)
        mf_demos_release(d);
    return rc;
}

void mf_demos_release(struct mf_demos *d)
{
    free(d->demo);
    free(d->obs);
    free(d->actions);
    free(d->env_args);
    *d = (struct mf_demos){0};
}
