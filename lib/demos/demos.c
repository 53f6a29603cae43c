#include "demos/demos.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/plain.h"
#include "base/stop.h"
#include "demos/demo_cache.h"
#include "demos/demo_list.h"
#include "demos/demo_words.h"
#include "stream/json.h"

struct reading {
    struct mf_demos *d;
    const char *path;
    hid_t file;
};

/* The error for a dataset that is missing, with the names of those beside it; of an observation, all observations. */
static int missing_set(struct reading *r, const char *path, struct mf_err *err)
{
    const char *obs = strstr(path, "/obs/"), *cut = obs ? obs + 4 : strrchr(path, '/');
    char group[PATH_MAX], there[300] = "";
    struct mf_h5_names names;
    struct mf_err ignored;
    hid_t at;
    snprintf(group, sizeof group, "%.*s", (int)(cut - path), path);
    if (mf_h5_object(r->file, group, &at, &ignored) == 0) {
        if (mf_h5_datasets(at, &names, &ignored) == 0) {
            mf_h5_join(&names, there, sizeof there);
            mf_h5_free_names(&names);
        }
        mf_h5_close(at);
    }
    return mf_err_set(err, MF_EFORMAT, "'%s' has no /%s; in /%s there is: %s", r->path, path, group,
                      *there ? there : "nothing");
}

/* Opens one dataset of a demo: fills *k, except its name, and the number of rows. */
static int open_set(struct reading *r, const char *path, hid_t *set, size_t *rows, struct mf_demo_column *k,
                    struct mf_err *err)
{
    hsize_t shape[MF_OBS_RANK + 1] = {0};
    enum mf_dtype dtype = MF_F32;
    int rank, rc;
    struct mf_err missing;
    if (mf_h5_object(r->file, path, set, &missing)) { /* checked only now, since it resolves the path again */
        rc = mf_h5_has(r->file, path, err);
        return rc == 0  ? missing_set(r, path, err)
               : rc < 0 ? mf_err_at(err, "'%s'", r->path)
                        : mf_err_set(err, missing.code, "'%s': %.400s", r->path, missing.text);
    }
    if ((rc = mf_h5_shape(*set, MF_OBS_RANK + 1, &rank, shape, err)) == 0 && rank == 0)
        rc = mf_err_set(err, MF_EFORMAT, "it is a single number");
    rc = rc ? rc : mf_h5_numbers(*set, &dtype, err);
    if (rc == 0 && rank == MF_OBS_RANK + 1 && dtype != MF_U8 && strchr("iu", mf_dtype_name(dtype)[1]))
        rc = mf_err_set(err, MF_EFORMAT, "it has pictures of %s: store color as uint8, and depth as float32 meters",
                        mf_dtype_name(dtype));
    k->is.u8 = dtype == MF_U8 && rank > 2; /* an image; a vector of bytes holds numbers */
    k->count = 1;
    for (int i = 0; i < (rank > 1 ? rank - 1 : 1) && rc == 0; i++) {
        hsize_t dim = rank > 1 ? shape[i + 1] : 1; /* (n): n steps of one number */
        if (dim < 1 || dim > MF_OBS_MAX / k->count)
            rc = mf_err_set(err, MF_EFORMAT, "its steps have no numbers, or more than %d", MF_OBS_MAX);
        k->is.dim[i] = (int)dim;
        k->count *= (size_t)dim;
    }
    k->bytes = k->count * (k->is.u8 ? 1 : sizeof(float));
    rc = rc ? rc : mf_h5_whole(*set, NULL, err);
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

/* The tokens of a demo: they are the same at all its steps. */
static int check_words(struct reading *r, const struct mf_demo *demo, const struct mf_demo_column *k,
                       struct mf_err *err)
{
    int rc = mf_demo_words_add(r->d->words, r->file, demo->name, err);
    mf_demo_cache_add(r->d->cache, -1, 1, 1); /* keeps the order of columns, and is never read */
    r->d->bytes += k->bytes;
    return rc ? mf_err_at(err, "'%s'", r->path) : 0;
}

/* Checks column i of a demo: the form of the first demo's, and as many rows as actions. */
static int check_column(struct reading *r, struct mf_demo *demo, int i, struct mf_err *err)
{
    struct mf_demos *d = r->d;
    struct mf_demo_column found = {.count = 0}, *k = &d->column[i];
    char at[160], x[64], y[64];
    size_t rows = 0;
    hid_t set = -1;
    if (d->words && i == d->spoken)
        return check_words(r, demo, k, err);
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
    else if (i == MF_DEMO_ACTIONS && mf_obs_rank(&found.is) != 1)
        rc = mf_err_set(err, MF_EFORMAT, "'%s': a step of /%s is %s, and actions are numbers in a row", r->path, at,
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

/* 1: its steps are 1-D numbers. MimicGen's notes on how a demonstration was generated are no observations. */
static int is_plain_key(hid_t obs, const char *name, struct mf_err *err)
{
    struct mf_err no_numbers;
    enum mf_dtype dtype;
    hsize_t dim[2];
    hid_t set;
    int rank, rc = mf_h5_object(obs, name, &set, err);
    if (rc || !strncmp(name, "datagen_info/", strlen("datagen_info/")))
        return rc;
    bool plain = !mf_h5_shape(set, 2, &rank, dim, &no_numbers) && rank == 2 && !mf_h5_numbers(set, &dtype, &no_numbers);
    mf_h5_close(set);
    return plain;
}

static int add_column(struct reading *r, const char *name, struct mf_err *err)
{
    struct mf_demos *d = r->d;
    const char *fault = mf_obs_name_fault(name);
    if (fault)
        return mf_err_set(err, MF_EFORMAT,
                          "'%s': the name of observation '%.80s' %s: rename it, or leave it out by policy.obs_keys",
                          r->path, name, fault);
    for (int i = 1; i < d->n_columns; i++)
        if (mf_obs_names_clash(d->column[i].is.name, name))
            return mf_err_set(err, MF_EUSAGE, "observations '%s' and '%s' cannot both be seen", d->column[i].is.name,
                              name);
    if (d->n_columns == MF_DEMO_COLUMNS)
        return mf_err_set(err, MF_EFORMAT, "'%s' has more than %d observations", r->path, MF_DEMO_COLUMNS - 1);
    strcpy(d->column[d->n_columns++].is.name, name);
    return 0;
}

static bool is_column(const struct mf_demos *d, const char *name)
{
    for (int i = 1; i < d->n_columns; i++)
        if (!strcmp(d->column[i].is.name, name))
            return true;
    return false;
}

/* The observations of the first demo without a column, for messages. */
static void note_unseen(struct mf_demos *d, const struct mf_h5_names *list)
{
    size_t used = 0;
    for (size_t i = 0; i < list->n && used < sizeof d->unseen; i++)
        if (!is_column(d, list->name[i]))
            used +=
                (size_t)snprintf(d->unseen + used, sizeof d->unseen - used, "%s%s", used ? ", " : "", list->name[i]);
    d->unseen[mf_plain_copy(d->unseen, d->unseen, strlen(d->unseen))] = '\0';
}

/* The observations of the first demo: the keys given, or the 1-D ones. */
static int find_obs(struct reading *r, const struct mf_demos_opts *opts, const char *obs, struct mf_err *err)
{
    struct mf_h5_names list = {0};
    hid_t group = -1;
    int rc = mf_h5_has(r->file, obs, err);
    if (rc > 0 && (rc = mf_h5_object(r->file, obs, &group, err)) == 0)
        rc = mf_h5_datasets(group, &list, err);
    if (rc)
        mf_err_at(err, "'%s'", r->path);
    for (int i = 0; i < opts->n_keys && rc == 0; i++)
        rc = add_column(r, opts->keys[i], err);
    for (size_t i = 0; i < list.n && opts->n_keys == 0 && rc == 0; i++) {
        if (opts->without && !strcmp(list.name[i], opts->without))
            continue;
        if ((rc = is_plain_key(group, list.name[i], err)) > 0)
            rc = add_column(r, list.name[i], err);
        else if (rc < 0)
            mf_err_at(err, "'%s', /%s", r->path, obs);
    }
    if (rc == 0 && list.n && r->d->n_columns == 1)
        rc =
            mf_err_set(err, MF_EFORMAT,
                       "'%s': no key of /%s has steps of 1-D numbers: name those to be read, images too", r->path, obs);
    note_unseen(r->d, &list);
    mf_h5_free_names(&list);
    mf_h5_close(group);
    return rc;
}

/* The column of tokens is made of the demos' words, even where the file has one: it holds no state, and nobody knows
 * its tokenizer. */
static int find_words(struct reading *r, const struct mf_demos_opts *opts, struct mf_err *err)
{
    struct mf_demos *d = r->d;
    struct mf_demo_column *k = &d->column[1];
    while (k < d->column + d->n_columns && strcmp(k->is.name, MF_OBS_TOKENS))
        k++;
    if (!opts->tokenizer || k == d->column + d->n_columns)
        return 0;
    k->is.dim[0] = opts->prompt_length;
    k->count = (size_t)opts->prompt_length;
    k->bytes = k->count * sizeof(float);
    d->spoken = (int)(k - d->column);
    return mf_demo_words_new(&d->words, r->file, opts->tokenizer, opts->prompt_length, err);
}

/* The columns' names: actions, then observations. */
static int find_columns(struct reading *r, const struct mf_demos_opts *opts, struct mf_err *err)
{
    char obs[64];
    strcpy(r->d->column[r->d->n_columns++].is.name, "actions");
    snprintf(obs, sizeof obs, "data/%s/obs", r->d->demo[0].name);
    int rc = find_obs(r, opts, obs, err);
    return rc ? rc : find_words(r, opts, err);
}

static int open_all(struct reading *r, const struct mf_demos_opts *opts, struct mf_err *err)
{
    struct mf_demos *d = r->d;
    int64_t chunk = 1;
    int rc = mf_demo_list(r->file, r->path, opts->filter, &d->demo, &d->n_demos, err);
    if (rc || (rc = find_columns(r, opts, err)))
        return rc;
    hid_t data;
    if ((rc = mf_h5_object(r->file, "data", &data, err)))
        return mf_err_at(err, "'%s'", r->path);
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
    for (size_t i = 0; i < d->n_demos && rc == 0; i++) {
        rc = check_demo(r, &d->demo[i], err);
        rc = rc ? rc : mf_stop_any(err);
        mf_h5_alive();
    }
    return rc;
}

int mf_demos_open(struct mf_demos *d, const char *path, const struct mf_demos_opts *opts, struct mf_err *err)
{
    *d = (struct mf_demos){0};
    struct reading r = {.d = d, .path = path};
    mf_h5_guard(path);
    int rc = mf_h5_open(&r.file, path, err);
    if (rc == 0) {
        d->cache = mf_demo_cache_new(r.file, path, opts->cache);
        rc = open_all(&r, opts, err);
    }
    rc = mf_h5_unguard(rc, path, err);
    if (rc)
        mf_demos_close(d);
    return rc;
}

static int read_env_args(hid_t file, char **text, struct mf_err *err)
{
    hid_t data;
    int rc = mf_h5_has(file, "data", err);
    if (rc <= 0 || (rc = mf_h5_object(file, "data", &data, err)))
        return rc;
    rc = mf_h5_attr_text(data, "env_args", text, err);
    mf_h5_close(data);
    return rc;
}

int mf_demos_env(const char *path, char name[64], struct mf_err *err)
{
    hid_t file = -1;
    char *text = NULL;
    *name = 0;
    mf_h5_guard(path);
    int rc = mf_h5_open(&file, path, err);
    if (rc == 0 && (rc = read_env_args(file, &text, err)) < 0)
        mf_err_at(err, "'%s', /data", path);
    mf_h5_close(file);
    rc = mf_h5_unguard(rc, path, err);
    if (text) {
        json_t *args;
        struct mf_err none; /* without valid arguments the name is unknown */
        mf_json_parse(&args, text, strlen(text), &none);
        const char *env = json_string_value(json_object_get(args, "env_name"));
        snprintf(name, 64, "%s", env && strlen(env) < 64 ? env : "");
        json_decref(args);
    }
    free(text);
    return rc < 0 ? rc : 0;
}

void mf_demos_close(struct mf_demos *d)
{
    mf_demo_cache_free(d->cache);
    mf_demo_words_free(d->words);
    free(d->demo);
    free(d->env_args);
    *d = (struct mf_demos){0};
}
