#include "demos/survey.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/stop.h"
#include "demos/demo_list.h"
#include "demos/survey_priv.h"

enum { DEEP = 4 };

/* Notes a problem of the file; ends the survey where the system is at fault. */
static void blame(struct mf_surveying *v, const char *where, const char *what, const struct mf_err *why)
{
    if (why->code == MF_EFORMAT)
        mf_survey_note(&v->s->problems, "%s: %s%s%s", where, what, *what ? ": " : "", why->text);
    else if (!v->broken.code)
        mf_err_set(&v->broken, why->code, "'%s': %s: %s%s%.300s", v->path, where, what, *what ? ": " : "", why->text);
}

/* ---- a demo ---- */

/* All datasets of a group, and of those in it. */
static void walk(struct mf_surveying *v, const char *group, const char *prefix, int deep)
{
    struct mf_h5_names list;
    struct mf_err err;
    if (mf_h5_list(v->file, group, &list, &err)) {
        blame(v, v->demo->name, "", &err);
        return;
    }
    for (size_t i = 0; i < list.n; i++) {
        char path[256], name[128];
        int fits = snprintf(path, sizeof path, "%s/%s", group, list.name[i]);
        if (fits < 0 || fits >= (int)sizeof path ||
            snprintf(name, sizeof name, "%s%s", prefix, list.name[i]) >= (int)sizeof name - 1)
            continue; /* longer than any key */
        hid_t object;
        int rc = mf_h5_object(v->file, path, &object, &err);
        H5I_type_t type = rc ? H5I_BADID : H5Iget_type(object);
        if (type == H5I_GROUP && deep < DEEP)
            walk(v, path, strcat(name, "/"), deep + 1);
        else if (rc || (type == H5I_DATASET && mf_survey_add(v, object, name, &err)))
            blame(v, v->demo->name, name, &err);
        mf_h5_close(object);
    }
    mf_h5_free_names(&list);
}

/* false: it cannot be opened, which is noted. */
static bool count_steps(struct mf_surveying *v)
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
        blame(v, v->demo->name, "", &err);
    else if (!has)
        mf_survey_note(&v->s->problems, "%s: there are no actions", v->demo->name);
    else if (mf_h5_shape(set, 2, &rank, dim, &err))
        blame(v, v->demo->name, "actions", &err);
    else if (dim[0] == 0)
        mf_survey_note(&v->s->problems, "%s: there are no steps", v->demo->name);
    v->demo->n = (size_t)dim[0];
    mf_h5_close(set);
    return reached;
}

static void check_samples(struct mf_surveying *v, const char *path)
{
    struct mf_err err;
    int64_t samples = -1;
    hid_t demo;
    int has = mf_h5_object(v->file, path, &demo, &err);
    has = has ? has : mf_h5_attr_int(demo, "num_samples", &samples, &err);
    mf_h5_close(demo);
    if (has < 0)
        blame(v, v->demo->name, "", &err);
    else if (has && samples != (int64_t)v->demo->n)
        mf_survey_note(&v->s->problems, "%s: attribute num_samples is %lld and there are %zu actions", v->demo->name,
                       (long long)samples, v->demo->n);
}

static void survey_demo(struct mf_surveying *v)
{
    struct mf_survey *s = v->s;
    struct mf_err err;
    char path[64];
    snprintf(path, sizeof path, "data/%s", v->demo->name);
    v->unclipped = false;
    if (!count_steps(v))
        return;
    if (!v->no_obs && mf_demo_has_obs(v->file, v->path, v->demo, &err)) {
        blame(v, v->demo->name, "", &err);
        v->no_obs = true; /* the other demos most likely lack it, too */
    }
    walk(v, path, "", 0);
    for (int i = 0; i < s->n_sets; i++)
        if (s->set[i].last != v->demo)
            mf_survey_note(!strncmp(s->set[i].name, "obs/", 4) ? &s->problems : &s->warnings,
                           "%s: there is no %s, which demos before it have", v->demo->name, s->set[i].name);
    check_samples(v, path);
    s->total += v->demo->n;
}

/* ---- the file ---- */

static void survey_masks(struct mf_surveying *v)
{
    struct mf_h5_names masks, names;
    struct mf_err err;
    char path[300];
    int has = mf_h5_has(v->file, "mask", &err);
    if (has == 0)
        return;
    if (has < 0 || mf_h5_list(v->file, "mask", &masks, &err)) {
        blame(v, "/mask", "", &err);
        return;
    }
    v->s->mask = mf_xcalloc(masks.n + 1, sizeof *v->s->mask);
    for (size_t i = 0; i < masks.n; i++) {
        snprintf(path, sizeof path, "mask/%s", masks.name[i]);
        if (mf_h5_read_strings(v->file, path, &names, &err)) {
            blame(v, "filter key", masks.name[i], &err);
            continue;
        }
        for (size_t j = 0; j < names.n; j++) {
            snprintf(path, sizeof path, "data/%s", names.name[j]);
            if (mf_h5_has(v->file, path, &err) == 0)
                mf_survey_note(&v->s->problems, "filter key %s: it names %s, which is not in /data", masks.name[i],
                               names.name[j]);
        }
        v->s->mask[v->s->n_masks++] = (struct mf_survey_mask){mf_xstrdup(masks.name[i]), names.n};
        mf_h5_free_names(&names);
    }
    mf_h5_free_names(&masks);
}

static void survey_attributes(struct mf_surveying *v)
{
    struct mf_err err;
    int64_t total = -1;
    hid_t data;
    if (mf_h5_object(v->file, "data", &data, &err))
        return;
    int args = mf_h5_attr_text(data, "env_args", &v->s->env_args, &err);
    if (args < 0)
        blame(v, "/data", "", &err);
    else if (!args)
        mf_survey_note(&v->s->warnings, "/data has no attribute env_args, which says what environment this is");
    int has = mf_h5_attr_int(data, "total", &total, &err);
    if (has < 0)
        blame(v, "/data", "", &err);
    else if (has && total != (int64_t)v->s->total && !v->opts->filter)
        mf_survey_note(&v->s->warnings, "/data: attribute total is %lld and the demos have %zu steps", (long long)total,
                       v->s->total);
    mf_h5_close(data);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct mf_survey_set *)a)->name, ((const struct mf_survey_set *)b)->name);
}

static int survey(struct mf_surveying *v, struct mf_err *err)
{
    struct mf_survey *s = v->s;
    hsize_t bytes = 0;
    int rc = mf_demo_list(v->file, v->path, v->opts->filter, &s->demo, &s->n_demos, err);
    if (rc)
        return rc;
    H5Fget_filesize(v->file, &bytes);
    s->bytes = bytes;
    s->recording = mf_h5_has(v->file, "mf/lengths", err) > 0;
    for (size_t i = 0; i < s->n_demos && !v->broken.code; i++) {
        v->demo = &s->demo[i];
        survey_demo(v);
        if (!v->broken.code)
            mf_stop_any(&v->broken);
        if (v->opts->progress)
            v->opts->progress(v->opts->arg, i + 1, s->n_demos);
    }
    for (int i = 0; i < s->n_sets; i++) {
        struct mf_survey_set *q = &s->set[i];
        q->by_step = q->fits == q->demos;
        if (q->demos < s->n_demos)
            mf_survey_note(!strncmp(q->name, "obs/", 4) ? &s->problems : &s->warnings,
                           "%s: only %zu of %zu demos have it", q->name, q->demos, s->n_demos);
        if (!q->by_step && q->fits > q->demos / 2 && !mf_survey_must_fit(q->name))
            mf_survey_note(&s->warnings, "%s: it has a row for each step in %zu of %zu demos only", q->name, q->fits,
                           q->demos);
    }
    survey_masks(v);
    survey_attributes(v);
    if (v->broken.code) {
        *err = v->broken;
        return err->code;
    }
    if (s->n_sets)
        qsort(s->set, (size_t)s->n_sets, sizeof *s->set, by_name);
    return 0;
}

int mf_survey(struct mf_survey *s, const char *path, const struct mf_survey_opts *opts, struct mf_err *err)
{
    struct mf_surveying v = {.s = s, .opts = opts, .path = path, .file = -1};
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
