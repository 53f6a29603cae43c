#include "flow/catalog.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/text.h"
#include "flow/checkpoint.h"
#include "run/runs.h"
#include "run/safetensors.h"
#include "stream/json.h"

void mf_catalog_release(struct mf_catalog *l)
{
    while (l->n)
        free(l->items[--l->n].path);
    free(l->items);
}

/* Success of the last rollouts before it, with noise, from the JSON file that mf-ppo writes beside it. */
static double success_of(const char *path)
{
    char beside[4096];
    snprintf(beside, sizeof beside, "%.*s.json", (int)(strlen(path) - strlen(".safetensors")), path);
    struct mf_err ignored;
    json_t *note;
    if (!mf_ends(path, ".safetensors") || mf_json_open(&note, beside, &ignored))
        return NAN;
    const json_t *values = json_object_get(json_object_get(note, "metrics"), "values");
    const double success = mf_json_number_of(json_object_get(values, "rollout/success_once"));
    json_decref(note);
    return success;
}

static int64_t number_of(const struct mf_safetensors *f, const char *key)
{
    const char *text = mf_safetensors_meta(f, key);
    return text ? strtoll(text, NULL, 10) : 0;
}

static bool is_weight(const char *name)
{
    return !mf_starts(name, "ema/") && !mf_starts(name, "opt/") && !mf_starts(name, "normalizer.") &&
           !mf_starts(name, "state/");
}

static int list_file(struct mf_catalog *l, const char *path, struct mf_err *err)
{
    struct mf_loaded *c;
    struct stat st;
    int rc = mf_checkpoint_open(&c, path, err);
    if (rc)
        return rc;
    const struct mf_safetensors *f = mf_loaded_file(c);
    struct mf_catalog_item it = {.path = mf_xstrdup(path), .success = success_of(path)};
    snprintf(it.kind, sizeof it.kind, "%s", mf_loaded_kind(c));
    it.iter = number_of(f, "iter");
    it.version = number_of(f, "version");
    it.size = stat(path, &st) == 0 ? (size_t)st.st_size : 0;
    for (int i = 0; i < f->n; i++)
        it.params += is_weight(f->tensors[i].name) ? f->tensors[i].count : 0;
    mf_checkpoint_close(c);
    l->items = mf_xrealloc(l->items, (size_t)l->n + 1, sizeof *l->items);
    l->items[l->n++] = it;
    return 0;
}

static int by_iter(const void *a, const void *b)
{
    const struct mf_catalog_item *x = a, *y = b;
    if (x->iter != y->iter)
        return x->iter < y->iter ? -1 : 1;
    return x->version != y->version ? (x->version < y->version ? -1 : 1) : strcmp(x->path, y->path);
}

static void sort(struct mf_catalog *l)
{
    if (l->n)
        qsort(l->items, (size_t)l->n, sizeof *l->items, by_iter);
}

static void take(const char *file, void *arg)
{
    struct mf_catalog *l = arg;
    struct mf_err why;
    if (list_file(l, file, &why)) {
        l->broken(why.text);
        l->n_broken++;
    }
}

int mf_catalog_folder(struct mf_catalog *l, const char *path, struct mf_err *err)
{
    int rc = mf_runs_files(path, take, l, err);
    sort(l);
    return rc;
}

int mf_catalog_all(struct mf_catalog *l, int n, const char *const *paths, struct mf_err *err)
{
    struct mf_at at;
    int rc = 0;
    for (int i = 0; i < n && !rc; i++)
        if ((rc = mf_runs_at(&at, paths[i], err)) == 0)
            rc = at.kind == MF_AT_FILE ? list_file(l, paths[i], err) : mf_runs_files(paths[i], take, l, err);
    sort(l);
    return rc;
}
