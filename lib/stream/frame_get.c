#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "stream/frame_priv.h"

/* The child of the list or map at v, named by the begin of the path. */
static bool into(struct mf_span *v, const char *path, const char **rest)
{
    struct mf_token t;
    const uint8_t *at = v->p, *end = v->p + v->n;
    if (mf_token_read(&t, at, v->n) != 1 || (t.type != MF_LIST && t.type != MF_MAP))
        return false;
    char *stop = (char *)path;
    unsigned long index = *path >= '0' && *path <= '9' ? strtoul(path, &stop, 10) : 0;
    bool numbered = stop != path && (*stop == '.' || !*stop);
    at += t.head;
    for (uint64_t i = 0; i < t.n; i++) {
        size_t key = t.type == MF_MAP ? mf_token_span(at, (size_t)(end - at)) : 0;
        size_t value = mf_token_span(at + key, (size_t)(end - at) - key);
        bool here = t.type == MF_MAP ? mf_span_begins(at, key, path, rest) : numbered && i == index;
        if (here) {
            *rest = t.type == MF_MAP ? *rest : stop;
            *v = (struct mf_span){.p = at + key, .n = value};
            return true;
        }
        at += key + value;
    }
    return false;
}

static bool among(const struct mf_field *field, const char **path, struct mf_span *v)
{
    const char *rest;
    if (!mf_span_begins(field->key.p, field->key.n, *path, &rest))
        return false;
    *v = field->value;
    *path = rest;
    return true;
}

/* The value at the path, or false. An added array has only a head, and no value. */
static bool look(const struct mf_frame *f, const char *path, struct mf_span *v)
{
    int i, j;
    for (i = 0; i < f->n_fields && !among(&f->field[i], &path, v);)
        i++;
    if (i == f->n_fields)
        return false;
    if (i == f->holder && *path) {
        path++;
        for (j = 0; j < f->n_entries && !among(&f->entry[j].field, &path, v);)
            j++;
        if (j == f->n_entries || (*path && f->entry[j].added))
            return false;
    }
    while (*path)
        if (!into(v, path + 1, &path))
            return false;
    return true;
}

bool mf_frame_has(const struct mf_frame *f, const char *path)
{
    struct mf_span v;
    return look(f, path, &v);
}

bool mf_frame_same(const struct mf_frame *a, const struct mf_frame *b, const char *path)
{
    struct mf_span x, y;
    bool in_a = look(a, path, &x), in_b = look(b, path, &y);
    return in_a == in_b && (!in_a || (x.n == y.n && !memcmp(x.p, y.p, x.n)));
}

static int get(const struct mf_frame *f, const char *path, struct mf_span *v, struct mf_token *t, struct mf_err *err)
{
    if (!look(f, path, v) || mf_token_read(t, v->p, v->n) != 1)
        return mf_err_set(err, MF_EFORMAT, "%s frame without '%s'", mf_kind_article(f->kind), path);
    if (t->type == MF_MAP)
        mf_array_scalar(v->p, v->n, t);
    return 0;
}

static int wrong(const struct mf_frame *f, const char *path, const char *want, struct mf_err *err)
{
    return mf_err_set(err, MF_EFORMAT, "%s frame whose '%s' is not %s", mf_kind_article(f->kind), path, want);
}

int mf_frame_get_int(const struct mf_frame *f, const char *path, int64_t *v, struct mf_err *err)
{
    struct mf_span s;
    struct mf_token t;
    int rc = get(f, path, &s, &t, err);
    if (rc)
        return rc;
    if (t.type != MF_SINT && (t.type != MF_UINT || t.u > INT64_MAX))
        return wrong(f, path, "an integer of 64 bits", err);
    *v = t.i;
    return 0;
}

static bool number(const struct mf_token *t, double *v)
{
    if (t->type != MF_SINT && t->type != MF_UINT && t->type != MF_REAL)
        return false;
    *v = t->type == MF_REAL ? t->f : t->type == MF_UINT ? (double)t->u : (double)t->i;
    return true;
}

int mf_frame_get_num(const struct mf_frame *f, const char *path, double *v, struct mf_err *err)
{
    struct mf_span s;
    struct mf_token t;
    int rc = get(f, path, &s, &t, err);
    if (rc)
        return rc;
    return number(&t, v) ? 0 : wrong(f, path, "a number", err);
}

int mf_frame_get_bool(const struct mf_frame *f, const char *path, bool *v, struct mf_err *err)
{
    struct mf_span s;
    struct mf_token t;
    int rc = get(f, path, &s, &t, err);
    if (rc)
        return rc;
    if (t.type != MF_TRUTH)
        return wrong(f, path, "true or false", err);
    *v = t.truth;
    return 0;
}

/* A returned string lives as long as the frame; equal ones share one copy. */
static const char *text(const struct mf_frame *f, const uint8_t *p, size_t n)
{
    struct mf_text **at = &((struct mf_frame *)f)->texts;
    for (struct mf_text *t = *at; t; t = t->next)
        if (strlen(t->text) == n && !memcmp(t->text, p, n))
            return t->text;
    struct mf_text *t = mf_xcalloc(1, sizeof *t + n + 1);
    memcpy(t->text, p, n);
    t->next = *at;
    *at = t;
    return t->text;
}

int mf_frame_get_str(const struct mf_frame *f, const char *path, const char **s, struct mf_err *err)
{
    struct mf_span v;
    struct mf_token t;
    int rc = get(f, path, &v, &t, err);
    if (rc)
        return rc;
    if (t.type != MF_TEXT || memchr(v.p + t.head, 0, t.n))
        return wrong(f, path, "a string without NUL bytes", err);
    *s = text(f, v.p + t.head, t.n);
    return 0;
}

int mf_frame_get_bin(const struct mf_frame *f, const char *path, const void **p, size_t *n, struct mf_err *err)
{
    struct mf_span v;
    struct mf_token t;
    int rc = get(f, path, &v, &t, err);
    if (rc)
        return rc;
    if (t.type != MF_BYTES)
        return wrong(f, path, "a bin", err);
    *p = v.p + t.head;
    *n = t.n;
    return 0;
}

static bool is_holder(const struct mf_frame *f, const char *path)
{
    return f->holder >= 0 && mf_span_is(f->field[f->holder].key.p, f->field[f->holder].key.n, path);
}

int mf_frame_count(const struct mf_frame *f, const char *path)
{
    struct mf_span v;
    struct mf_token t;
    if (!*path)
        return f->n_fields;
    if (is_holder(f, path))
        return f->n_entries;
    if (!look(f, path, &v) || mf_token_read(&t, v.p, v.n) != 1 || (t.type != MF_LIST && t.type != MF_MAP))
        return -1;
    return (int)t.n;
}

/* Entry i of the map at the path: the bytes from its key on. */
static bool entry(const struct mf_frame *f, const char *path, int i, struct mf_span *v)
{
    struct mf_token t;
    if (i < 0 || !look(f, path, v) || mf_token_read(&t, v->p, v->n) != 1 || t.type != MF_MAP || (uint64_t)i >= t.n)
        return false;
    const uint8_t *at = v->p + t.head, *end = v->p + v->n;
    for (int skip = 2 * i; skip--;)
        at += mf_token_span(at, (size_t)(end - at));
    *v = (struct mf_span){.p = at, .n = (size_t)(end - at)};
    return true;
}

const char *mf_frame_key(const struct mf_frame *f, const char *path, int i)
{
    struct mf_span v;
    struct mf_token t;
    if (i < 0 || i >= mf_frame_count(f, path))
        return NULL;
    if (!*path)
        v = f->field[i].key;
    else if (is_holder(f, path))
        v = f->entry[i].field.key;
    else if (!entry(f, path, i, &v))
        return NULL;
    if (mf_token_read(&t, v.p, v.n) != 1 || (t.type != MF_TEXT && t.type != MF_BYTES) || memchr(v.p + t.head, 0, t.n))
        return NULL;
    return text(f, v.p + t.head, t.n);
}

int mf_frame_num_at(const struct mf_frame *f, const char *path, int i, double *v, struct mf_err *err)
{
    struct mf_span s;
    struct mf_token t;
    if (!entry(f, path, i, &s))
        return mf_err_set(err, MF_EFORMAT, "%s frame without entry %d of '%s'", mf_kind_article(f->kind), i, path);
    const size_t key = mf_token_span(s.p, s.n);
    s.p += key, s.n -= key;
    if (mf_token_read(&t, s.p, s.n) == 1 && t.type == MF_MAP)
        mf_array_scalar(s.p, s.n, &t);
    return number(&t, v) ? 0 : mf_err_set(err, MF_EFORMAT, "entry %d of '%s' is not a number", i, path);
}

int mf_frame_share(const struct mf_frame *f, int *n)
{
    *n = f->shares ? f->shares : 1;
    return f->share;
}
