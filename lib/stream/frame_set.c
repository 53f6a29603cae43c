#include <assert.h>
#include <msgpack.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "stream/frame_priv.h"

/* A value is packed alone, then inserted at the path: the bytes around it stay as they are. */
struct pack {
    msgpack_sbuffer to;
    msgpack_packer pk;
};

static void start(struct pack *p)
{
    p->to = mf_few_bytes();
    msgpack_packer_init(&p->pk, &p->to, msgpack_sbuffer_write);
}

static void str(struct pack *p, const char *s, size_t n)
{
    msgpack_pack_str_with_body(&p->pk, s, n);
}

static void bytes(struct pack *p, const void *from, size_t n)
{
    if (n)
        msgpack_sbuffer_write(&p->to, from, n);
}

/* The first key of a path. Returns its bytes in the path. */
static size_t put_key(struct pack *p, const char *path)
{
    char *key = mf_xcalloc(strlen(path) + 1, 1);
    size_t n = mf_unescape(key, path, ".");
    str(p, key, strlen(key));
    free(key);
    return n;
}

/* `leaf` under the maps that the path names and that are not there yet. */
static void make(struct pack *p, const char *path, const struct pack *leaf)
{
    for (size_t n; *path; path += path[n] ? n + 1 : n) {
        msgpack_pack_map(&p->pk, 1);
        n = put_key(p, path);
    }
    bytes(p, leaf->to.data, leaf->to.size);
}

/* A copy of the value v with the leaf at the path. The depth is bounded by the length of the path. */
static void splice(struct pack *p, const uint8_t *v, size_t len, const char *path, const struct pack *leaf)
{
    struct mf_token t = {.type = MF_NIL};
    const char *rest;
    if (*path && len)
        mf_token_read(&t, v, len);
    if (t.type != MF_MAP && t.type != MF_LIST) {
        make(p, path, leaf);
        return;
    }
    const uint8_t *at = v + t.head, *end = v + len;
    char *stop = (char *)path;
    unsigned long index = t.type == MF_LIST ? strtoul(path, &stop, 10) : 0;
    for (uint64_t i = 0; i < t.n; i++) {
        size_t key = t.type == MF_MAP ? mf_token_span(at, (size_t)(end - at)) : 0;
        size_t value = mf_token_span(at + key, (size_t)(end - at) - key);
        bool here = t.type == MF_MAP ? mf_span_begins(at, key, path, &rest) : stop != path && i == index;
        if (here) {
            rest = t.type == MF_MAP ? rest : stop;
            bytes(p, v, (size_t)(at + key - v));
            splice(p, at + key, value, *rest ? rest + 1 : rest, leaf);
            bytes(p, at + key + value, (size_t)(end - at) - key - value);
            return;
        }
        at += key + value;
    }
    if (t.type == MF_LIST) { /* no such index: a map replaces the list */
        make(p, path, leaf);
        return;
    }
    msgpack_pack_map(&p->pk, t.n + 1);
    bytes(p, v + t.head, len - t.head);
    size_t n = put_key(p, path);
    make(p, path[n] ? path + n + 1 : path + n, leaf);
}

static struct mf_field *field_of(struct mf_frame *f, const char *path, const char **rest)
{
    for (int i = 0; i < f->n_fields; i++)
        if (mf_span_begins(f->field[i].key.p, f->field[i].key.n, path, rest))
            return &f->field[i];
    return NULL;
}

/* Takes the leaf. */
static void put(struct mf_frame *f, const char *path, struct pack *leaf)
{
    const char *rest;
    struct mf_field *field = field_of(f, path, &rest);
    assert((!field || field - f->field != f->holder) && "arrays are set by mf_frame_add");
    if (!field) {
        size_t n = strcspn(path, ".");
        field = mf_frame_append(f, path, n);
        rest = path + n;
    }
    struct pack whole;
    start(&whole);
    splice(&whole, field->value.p, field->value.n, *rest ? rest + 1 : rest, leaf);
    msgpack_sbuffer_destroy(&leaf->to);
    free(field->value.own);
    field->value = (struct mf_span){(uint8_t *)whole.to.data, whole.to.size, (uint8_t *)whole.to.data};
    f->changed = true;
}

void mf_frame_set_int(struct mf_frame *f, const char *path, int64_t v)
{
    struct pack leaf;
    start(&leaf);
    msgpack_pack_int64(&leaf.pk, v);
    put(f, path, &leaf);
}

void mf_frame_set_num(struct mf_frame *f, const char *path, double v)
{
    struct pack leaf;
    start(&leaf);
    msgpack_pack_double(&leaf.pk, v);
    put(f, path, &leaf);
}

void mf_frame_set_bool(struct mf_frame *f, const char *path, bool v)
{
    struct pack leaf;
    start(&leaf);
    v ? msgpack_pack_true(&leaf.pk) : msgpack_pack_false(&leaf.pk);
    put(f, path, &leaf);
}

void mf_frame_set_str(struct mf_frame *f, const char *path, const char *s)
{
    struct pack leaf;
    start(&leaf);
    str(&leaf, s, strlen(s));
    put(f, path, &leaf);
}

void mf_frame_set_bin(struct mf_frame *f, const char *path, const void *p, size_t n)
{
    struct pack leaf;
    start(&leaf);
    msgpack_pack_bin(&leaf.pk, n);
    bytes(&leaf, p, n);
    put(f, path, &leaf);
}

void mf_frame_set_ints(struct mf_frame *f, const char *path, const int64_t *v, size_t n)
{
    struct pack leaf;
    start(&leaf);
    msgpack_pack_array(&leaf.pk, n);
    for (size_t i = 0; i < n; i++)
        msgpack_pack_int64(&leaf.pk, v[i]);
    put(f, path, &leaf);
}

void mf_frame_add_chain(struct mf_frame *f, const char *stage, const char *version, int argc, char **argv)
{
    const char *rest;
    const struct mf_field *chain = field_of(f, "chain", &rest);
    const struct mf_span *old = chain ? &chain->value : NULL;
    struct mf_token list = {.type = MF_NIL};
    struct pack leaf;
    if (old)
        mf_token_read(&list, old->p, old->n);
    bool grows = list.type == MF_LIST;
    start(&leaf);
    msgpack_pack_array(&leaf.pk, grows ? list.n + 1 : 1);
    if (grows)
        bytes(&leaf, old->p + list.head, old->n - list.head);
    msgpack_pack_map(&leaf.pk, 3);
    str(&leaf, "stage", 5);
    str(&leaf, stage, strlen(stage));
    str(&leaf, "version", 7);
    str(&leaf, version, strlen(version));
    str(&leaf, "argv", 4);
    msgpack_pack_array(&leaf.pk, (size_t)argc);
    for (int i = 0; i < argc; i++)
        str(&leaf, argv[i], strlen(argv[i]));
    put(f, "chain", &leaf);
}

struct mf_frame *mf_frame_head(const char *run, const char *src, int64_t seed)
{
    struct mf_frame *f = mf_frame_new(MF_HEAD);
    mf_frame_set_int(f, "v", 1);
    mf_frame_set_str(f, "run", run);
    mf_frame_set_str(f, "src", src);
    mf_frame_set_int(f, "seed", seed);
    return f;
}

void mf_frame_set_share(struct mf_frame *f, int k, int n)
{
    f->share = k;
    f->shares = n;
}
