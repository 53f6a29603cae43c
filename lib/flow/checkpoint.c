#include "flow/checkpoint.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "flow/base.h"
#include "flow/checkpoint_priv.h"
#include "flow/fields.h"

/* ---- open ---- */

static int fact(const struct mf_loaded *l, const char *group, const char *key, const char **text, struct mf_err *err)
{
    char name[128];
    snprintf(name, sizeof name, "%s%s", group, key);
    *text = mf_safetensors_meta(&l->file, name);
    return *text ? 0 : mf_err_set(err, MF_EFORMAT, "the metadata of %s lacks %s", l->path, name);
}

int mf_loaded_int(const struct mf_loaded *l, const char *group, const char *key, int64_t *v, struct mf_err *err)
{
    const char *text;
    char *end;
    if (fact(l, group, key, &text, err))
        return err->code;
    errno = 0;
    *v = strtoll(text, &end, 10);
    if (end == text || *end || errno)
        return mf_err_set(err, MF_EFORMAT, "the metadata of %s has %s%s='%.60s', which is no integer", l->path, group,
                          key, text);
    return 0;
}

static int fact_num(const struct mf_loaded *l, const char *key, double *v, struct mf_err *err)
{
    const char *text;
    char *end;
    if (fact(l, "", key, &text, err))
        return err->code;
    *v = strtod(text, &end);
    if (end == text || *end || !isfinite(*v))
        return mf_err_set(err, MF_EFORMAT, "the metadata of %s has %s='%.60s', which is no number", l->path, key, text);
    return 0;
}

static int read_facts(struct mf_loaded *l, struct mf_err *err)
{
    const char *text = mf_safetensors_meta(&l->file, "format");
    if (!text || strcmp(text, MF_CHECKPOINT_FORMAT))
        return mf_err_set(err, MF_EFORMAT,
                          "%s is a safetensors file but no checkpoint of a policy: its metadata has "
                          "format='%.60s' and not '%s'",
                          l->path, text ? text : "", MF_CHECKPOINT_FORMAT);
    int rc = fact(l, "", "kind", &text, err) || mf_loaded_int(l, "", "version", &l->version, err) ||
                     mf_loaded_int(l, "", "iter", &l->iter, err) ||
                     mf_loaded_int(l, "", "global_step", &l->global_step, err) ||
                     fact_num(l, "noise_low", &l->noise_low, err) || fact_num(l, "noise_high", &l->noise_high, err)
                 ? err->code
                 : 0;
    const int64_t most = INT64_MAX / 2;
    if (!rc && (l->version < 0 || l->iter < 0 || l->global_step < 0 || l->version > most || l->iter > most ||
                l->global_step > most))
        rc = mf_err_set(err, MF_EFORMAT,
                        "the metadata of %s has version=%lld, iter=%lld, global_step=%lld: no run has such counts",
                        l->path, (long long)l->version, (long long)l->iter, (long long)l->global_step);
    l->clone = !rc && !strcmp(text, "clone");
    for (const struct mf_spec_field *f = NULL; !rc && (f = mf_spec_next(&l->spec, f));)
        if (!(rc = fact(l, "spec.", f->name, &text, err)))
            rc = mf_spec_set(&l->spec, f, text, l->path, err);
        else if (f->absent)
            rc = mf_spec_set(&l->spec, f, f->absent, l->path, err);
    return rc;
}

/* A group is frozen in the file where its name is in the list. */
static unsigned frozen_in(const struct mf_loaded *l)
{
    const char *text = mf_safetensors_meta(&l->file, "frozen");
    unsigned frozen = 0;
    for (int g = 0; text && g < MF_GROUPS; g++)
        for (const char *at = text; at; at = strchr(at, ','), at += at != NULL) {
            const size_t n = strcspn(at, ",");
            if (n == strlen(mf_group_names[g]) && !strncmp(at, mf_group_names[g], n))
                frozen |= 1u << g;
        }
    return frozen;
}

static void find_states(struct mf_loaded *l)
{
    for (int i = 0; i < l->file.n; i++) {
        const struct mf_array *a = &l->file.tensors[i];
        struct mf_state s = {.bytes = a->data, .size = a->bytes};
        if (strncmp(a->name, "state/", 6) || a->dtype != MF_U8 || strlen(a->name + 6) >= sizeof s.src)
            continue;
        strcpy(s.src, a->name + 6);
        l->states = mf_xrealloc(l->states, (size_t)l->n_states + 1, sizeof *l->states);
        l->states[l->n_states++] = s;
    }
}

int mf_checkpoint_open(struct mf_loaded **out, const char *path, struct mf_err *err)
{
    struct mf_loaded *l = mf_xcalloc(1, sizeof *l);
    l->path = mf_xstrdup(path);
    int rc = mf_safetensors_open(&l->file, path, err);
    if (!rc && !(rc = mf_base_join(&l->file, &l->base, path, err)))
        rc = read_facts(l, err);
    if (rc) {
        mf_checkpoint_close(l);
        return rc;
    }
    find_states(l);
    l->frozen = frozen_in(l);
    *out = l;
    return 0;
}

void mf_checkpoint_close(struct mf_loaded *l)
{
    if (!l)
        return;
    mf_safetensors_close(&l->file);
    mf_safetensors_close(&l->base);
    free(l->states);
    free(l->path);
    free(l);
}

const char *mf_loaded_path(const struct mf_loaded *l)
{
    return l->path;
}

void mf_loaded_base(const struct mf_loaded *l, char *path, size_t size, char hex[17])
{
    const char *named = mf_safetensors_meta(&l->file, MF_BASE);
    if (named) {
        mf_base_path(l->path, path, size);
        snprintf(hex, 17, "%s", named);
    } else {
        snprintf(path, size, "%s", l->path);
        mf_base_digest(&l->file, hex);
    }
}

const struct mf_policy_spec *mf_loaded_spec(const struct mf_loaded *l)
{
    return &l->spec;
}

const char *mf_loaded_kind(const struct mf_loaded *l)
{
    return mf_safetensors_meta(&l->file, "kind");
}

const struct mf_safetensors *mf_loaded_file(const struct mf_loaded *l)
{
    return &l->file;
}

const char *mf_loaded_extra(const struct mf_loaded *l, const char *key)
{
    const char *text;
    struct mf_err none;
    return fact(l, "extra.", key, &text, &none) ? NULL : text;
}

int mf_loaded_count(const struct mf_loaded *l, const char *key, int64_t *v, struct mf_err *err)
{
    *v = 0;
    if (!mf_loaded_extra(l, key))
        return 0;
    int rc = mf_loaded_int(l, "extra.", key, v, err);
    return rc || *v >= 0 ? rc
                         : mf_err_set(err, MF_EFORMAT, "the metadata of %s has extra.%s=%lld, which is no count",
                                      l->path, key, (long long)*v);
}

int mf_loaded_states(const struct mf_loaded *l, const struct mf_state **states)
{
    *states = l->states;
    return l->n_states;
}
