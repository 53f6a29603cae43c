#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/plain.h"
#include "import/torch_priv.h"

enum {
    DEPTH_MAX = 64,
    STEPS_MAX = 1 << 22,  /* a pickle may reach one node by many paths */
    ITEMS_MAX = 64,       /* of a list of plain values */
    BYTES_MAX = 64 << 20, /* of all names and values */
};

struct walk {
    struct mf_torch *f;
    const char *root;
    char path[1024];
    size_t len, key; /* length of path; begin of its part within the innermost dictionary */
    bool in_module;
    int depth;
    size_t steps, bytes;
    struct mf_err *err;
};

static int walk(struct walk *w, const struct mf_pickle_node *x);

static int wrong(struct walk *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int wrong(struct walk *w, const char *fmt, ...)
{
    char text[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return mf_err_set(w->err, MF_EFORMAT, "%.120s: %.100s %s", w->f->zip.path, w->len ? w->path : "its pickle", text);
}

/* ---- the path ---- */

/* Walks x below one more word of the path. joined: the word continues the present key. */
static int step(struct walk *w, const char *word, size_t n, bool joined, const struct mf_pickle_node *x)
{
    size_t len = w->len, key = w->key;
    if (len + n + 2 > sizeof w->path)
        return wrong(w, "has a name of more than %zu bytes in it", sizeof w->path);
    if (len)
        w->path[w->len++] = '.';
    if (!joined)
        w->key = w->len;
    w->len += mf_plain_copy(w->path + w->len, word, n);
    w->path[w->len] = 0;
    int rc = walk(w, x);
    w->len = len;
    w->key = key;
    w->path[len] = 0;
    return rc;
}

static int step_number(struct walk *w, int64_t i, const struct mf_pickle_node *x)
{
    char word[24];
    return step(w, word, (size_t)sprintf(word, "%lld", (long long)i), false, x);
}

/* ---- values ---- */

static void *grown(void *list, int n, size_t size)
{
    return n & (n - 1) ? list : mf_xrealloc(list, n ? 2 * (size_t)n : 1, size); /* a power of two is full */
}

/* A scalar, or a list of such. */
static int add_value(struct walk *w, const struct mf_pickle_node *x)
{
    struct mf_torch *f = w->f;
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    if (!to)
        return mf_err_set(w->err, MF_ENOMEM, "cannot allocate the values of %s", f->zip.path);
    if (x->kind == MF_PICKLE_LIST || x->kind == MF_PICKLE_TUPLE) {
        putc('[', to);
        for (size_t i = 0; i < x->n && i < ITEMS_MAX; i++) {
            if (i)
                fputs(", ", to);
            mf_torch_scalar(to, x->item[i]);
        }
        if (x->n > ITEMS_MAX)
            fprintf(to, ", .. (%zu)", x->n);
        putc(']', to);
    } else {
        mf_torch_scalar(to, x);
    }
    fclose(to);
    w->bytes += w->len + size;
    f->value = grown(f->value, f->n_values, sizeof *f->value);
    f->value[f->n_values++] = (struct mf_torch_value){mf_xstrdup(w->path), text};
    return 0;
}

/* ---- tensors ---- */

struct call {
    const char *name;
    size_t len;
    const struct mf_pickle_node *args;
};

static bool calls(const struct call *c, const char *name)
{
    return c->len == strlen(name) && !memcmp(c->name, name, c->len);
}

/* The call that rebuilds a tensor, within the calls that wrap it. */
static bool tensor_call(const struct mf_pickle_node *x, struct call *c)
{
    for (int i = 0; i < 4 && x && x->kind == MF_PICKLE_OBJECT && x->args; i++) {
        *c = (struct call){x->text, x->len, x->args};
        if (calls(c, "torch._tensor._rebuild_from_type_v2") && x->args->n > 2 &&
            x->args->item[0]->kind == MF_PICKLE_GLOBAL)
            *c = (struct call){x->args->item[0]->text, x->args->item[0]->len, x->args->item[2]};
        if (calls(c, "torch._utils._rebuild_tensor_v2") || calls(c, "torch._utils._rebuild_tensor_v3") ||
            calls(c, "torch._utils._rebuild_tensor"))
            return true;
        if (!calls(c, "torch._utils._rebuild_parameter") && !calls(c, "torch._utils._rebuild_parameter_with_state"))
            return false;
        x = mf_torch_arg(c->args, 0);
    }
    return false;
}

static bool size_of(const struct mf_pickle_node *x, size_t *v)
{
    *v = x && x->kind == MF_PICKLE_INT && x->integer >= 0 ? (size_t)x->integer : 0;
    return x && x->kind == MF_PICKLE_INT && x->integer >= 0;
}

/* dtype and entry, from ("storage", torch.FloatStorage, "0", "cpu", numbers) */
static int find_storage(struct walk *w, const struct call *c, struct mf_torch_tensor *t)
{
    const struct mf_pickle_node *id = mf_torch_arg(c->args, 0), *type, *key, *dtype;
    size_t numbers;
    char name[300];
    bool good = mf_torch_object(id, "persistent id") && (type = mf_torch_arg(id->args, 1)) &&
                (key = mf_torch_arg(id->args, 2)) && mf_node_is(mf_torch_arg(id->args, 0), MF_PICKLE_TEXT, "storage") &&
                key->kind == MF_PICKLE_TEXT && key->len < 40 && type->kind == MF_PICKLE_GLOBAL && type->len > 6 &&
                size_of(mf_torch_arg(id->args, 4), &numbers);
    if (!good)
        return wrong(w, "has no storage that this file could hold");
    if (calls(c, "torch._utils._rebuild_tensor_v3") && (dtype = mf_torch_arg(c->args, 6)) &&
        dtype->kind == MF_PICKLE_GLOBAL)
        type = dtype;
    if (type->len <= 6 || memcmp(type->text, "torch.", 6) ||
        !(t->dtype = mf_torch_dtype(type->text + 6, type->len - 6)))
        return wrong(w, "is of the unknown type %.*s", (int)(type->len < 60 ? type->len : 60), type->text);
    snprintf(name, sizeof name, "%s/data/%.*s", w->root, (int)key->len, key->text);
    if (!(t->storage = mf_zip_find(&w->f->zip, name)))
        return wrong(w, "is in %s, which the file does not hold", name);
    return 0;
}

static int find_shape(struct walk *w, const struct call *c, struct mf_torch_tensor *t)
{
    const struct mf_pickle_node *dims = mf_torch_arg(c->args, 2), *strides = mf_torch_arg(c->args, 3);
    bool good = size_of(mf_torch_arg(c->args, 1), &t->offset) && dims && dims->kind == MF_PICKLE_TUPLE && strides &&
                strides->kind == MF_PICKLE_TUPLE && dims->n == strides->n;
    size_t last = t->offset, far, room = t->storage->size / t->dtype->size;
    if (good && dims->n > MF_RANK_MAX)
        return wrong(w, "has %zu dimensions, and at most %d are read", dims->n, MF_RANK_MAX);
    t->rank = good ? (int)dims->n : 0;
    t->count = 1;
    for (int i = 0; i < t->rank && good; i++) {
        good = size_of(dims->item[i], &t->dim[i]) && size_of(strides->item[i], &t->stride[i]) &&
               !__builtin_mul_overflow(t->count, t->dim[i], &t->count) && t->count <= SIZE_MAX / 16;
        if (good && t->dim[i])
            good =
                !__builtin_mul_overflow(t->dim[i] - 1, t->stride[i], &far) && !__builtin_add_overflow(last, far, &last);
    }
    if (!good)
        return wrong(w, "has no shape, or one whose size does not fit 64 bits");
    if (t->count && last >= room)
        return wrong(w, "reaches to number %zu of the %zu in its storage", last, room);
    return 0;
}

static int add_tensor(struct walk *w, const struct call *c)
{
    struct mf_torch_tensor t = {.count = 1};
    struct mf_torch *f = w->f;
    int rc = find_storage(w, c, &t);
    if (rc || (rc = find_shape(w, c, &t)))
        return rc;
    w->bytes += w->len;
    t.name = mf_xstrdup(w->path);
    t.key = t.name + w->key;
    f->tensor = grown(f->tensor, f->n, sizeof *f->tensor);
    f->tensor[f->n++] = t;
    return 0;
}

/* ---- the walk ---- */

/* A module that was saved whole, under the names of its state_dict. */
static int walk_module(struct walk *w, const struct mf_pickle_node *x)
{
    static const char *const parts[] = {"_parameters", "_buffers", "_modules"};
    bool within = w->in_module;
    int rc = 0;
    w->in_module = true;
    for (int part = 0; part < 3; part++) {
        const struct mf_pickle_node *d = mf_node_get(x->state, parts[part]);
        for (size_t i = 0; d && d->pairs && i + 1 < d->n && !rc; i += 2)
            if (d->item[i]->kind == MF_PICKLE_TEXT && d->item[i + 1]->kind != MF_PICKLE_NONE)
                rc = step(w, d->item[i]->text, d->item[i]->len, within, d->item[i + 1]);
    }
    w->in_module = within;
    return rc;
}

static int walk_pairs(struct walk *w, const struct mf_pickle_node *x)
{
    int rc = 0;
    for (size_t i = 0; i + 1 < x->n && !rc; i += 2) {
        const struct mf_pickle_node *key = x->item[i];
        if (key->kind == MF_PICKLE_INT)
            rc = step_number(w, key->integer, x->item[i + 1]);
        else
            rc = step(w, key->kind == MF_PICKLE_TEXT ? key->text : "?", key->kind == MF_PICKLE_TEXT ? key->len : 1,
                      false, x->item[i + 1]);
    }
    return rc;
}

static int walk_list(struct walk *w, const struct mf_pickle_node *x)
{
    bool scalars = true;
    int rc = 0;
    w->steps += x->n;
    for (size_t i = 0; i < x->n && scalars; i++)
        scalars = mf_torch_is_scalar(x->item[i]);
    if (scalars)
        return add_value(w, x);
    for (size_t i = 0; i < x->n && !rc; i++)
        rc = step_number(w, (int64_t)i, x->item[i]);
    return rc;
}

/* A pickle within the pickle, as diffusion policy stores its counters. Unreadable bytes are a value. */
static int walk_bytes(struct walk *w, const struct mf_pickle_node *x)
{
    struct mf_pickle p = {0};
    struct mf_err none;
    const char *bytes;
    char *own;
    size_t n;
    bool good = mf_torch_bytes(x, &bytes, &n, &own) && n > 2 && bytes[0] == '\x80' && w->depth < 16 &&
                mf_pickle_parse(&p, bytes, n, n, w->path, &none) == 0;
    w->steps += n / 64;
    int rc = good ? walk(w, p.root) : add_value(w, x);
    mf_pickle_release(&p);
    free(own);
    return rc;
}

static int visit(struct walk *w, const struct mf_pickle_node *x)
{
    struct call c;
    if (tensor_call(x, &c))
        return add_tensor(w, &c);
    if (x->kind == MF_PICKLE_DICT || x->pairs)
        return walk_pairs(w, x);
    if (x->kind == MF_PICKLE_LIST || x->kind == MF_PICKLE_TUPLE)
        return walk_list(w, x);
    if (mf_torch_object(x, "collections.OrderedDict") || mf_torch_object(x, "collections.defaultdict"))
        return 0; /* an empty one */
    if (mf_torch_object(x, "torch.Size") && mf_torch_arg(x->args, 0))
        return walk(w, x->args->item[0]);
    if (mf_torch_object(x, "argparse.Namespace") && x->state)
        return walk(w, x->state);
    if (x->kind == MF_PICKLE_OBJECT && mf_node_get(x->state, "_parameters"))
        return walk_module(w, x);
    if (x->kind == MF_PICKLE_BYTES || mf_torch_object(x, "_codecs.encode"))
        return walk_bytes(w, x);
    return add_value(w, x);
}

static int walk(struct walk *w, const struct mf_pickle_node *x)
{
    if (w->depth == DEPTH_MAX)
        return wrong(w, "is nested deeper than %d: does it hold itself?", DEPTH_MAX);
    if (w->steps++ >= STEPS_MAX || w->bytes > BYTES_MAX)
        return wrong(w, "is where the pickle unfolds to more than can be: it refers to the same things too often");
    w->depth++;
    int rc = visit(w, mf_torch_unwrapped(x));
    w->depth--;
    return rc;
}

int mf_torch_walk(struct mf_torch *f, const struct mf_pickle_node *tree, const char *root, struct mf_err *err)
{
    struct walk w = {.f = f, .root = root, .err = err};
    return walk(&w, tree);
}
