#include "stream/frame.h"

#include <msgpack.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "stream/frame_priv.h"

static const char *const kinds[] = {"head", "rollout", "round", "metrics", "video", "policy", "end", "failed", "other"};

static const char *const with_article[] = {"a head",   "a rollout", "a round",  "a metrics", "a video",
                                           "a policy", "an end",    "a failed", "an unknown"};

const char *mf_kind_article(enum mf_kind kind)
{
    return with_article[kind];
}

const char *mf_kind_name(enum mf_kind kind)
{
    return kinds[kind];
}

static const char *holder_name(enum mf_kind kind)
{
    return kind == MF_POLICY ? "tensors" : "arrays";
}

struct mf_field *mf_frame_append(struct mf_frame *f, const char *key, size_t len)
{
    msgpack_sbuffer b = mf_few_bytes();
    msgpack_packer pk;
    msgpack_packer_init(&pk, &b, msgpack_sbuffer_write);
    msgpack_pack_str_with_body(&pk, key, len);
    f->field = mf_xrealloc(f->field, (size_t)f->n_fields + 1, sizeof *f->field);
    f->field[f->n_fields] = (struct mf_field){.key = {(uint8_t *)b.data, b.size, (uint8_t *)b.data}};
    f->changed = true;
    return &f->field[f->n_fields++];
}

struct mf_field *mf_frame_hold(struct mf_frame *f)
{
    if (f->holder < 0) {
        const char *name = holder_name(f->kind);
        mf_frame_append(f, name, strlen(name));
        f->holder = f->n_fields - 1;
    }
    return &f->field[f->holder];
}

struct mf_frame *mf_frame_new(enum mf_kind kind)
{
    struct mf_frame *f = mf_xcalloc(1, sizeof *f);
    f->kind = kind;
    f->holder = -1;
    mf_frame_set_str(f, "mf", kinds[kind]);
    return f;
}

static void release(struct mf_field *field)
{
    free(field->key.own);
    free(field->value.own);
}

struct mf_frame *mf_frame_keep(struct mf_frame *f)
{
    f->kept++;
    return f;
}

void mf_frame_free(struct mf_frame *f)
{
    if (!f || f->kept-- > 0)
        return;
    for (int i = 0; i < f->n_fields; i++)
        release(&f->field[i]);
    for (int i = 0; i < f->n_entries; i++) {
        struct mf_entry *e = &f->entry[i];
        if (e->added)
            free(e->array->data);
        free(e->array);
        release(&e->field);
    }
    for (struct mf_text *t = f->texts, *next; t; t = next) {
        next = t->next;
        free(t);
    }
    free(f->field);
    free(f->entry);
    free(f->store);
    free(f->raw);
    free(f);
}

size_t mf_frame_bytes(const struct mf_frame *f)
{
    return f->len;
}

enum mf_kind mf_frame_kind(const struct mf_frame *f)
{
    return f->kind;
}

/* ---- coming in ---- */

enum { MF_FEW_KEYS = 16 };

struct key {
    const uint8_t *p; /* the content of a string or bin; the encoding of any other object */
    size_t n;
    bool text;
};

static int by_key(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    int order = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);
    order = order ? order : (x->n > y->n) - (x->n < y->n);
    return order ? order : x->text - y->text; /* the number 49 and the string "1" have the same byte */
}

/* A duplicate among n keys, or NULL. Few keys are compared pairwise, more are sorted. */
static const struct key *find_twin(struct key *key, size_t n)
{
    size_t far = n;
    if (n > MF_FEW_KEYS) {
        qsort(key, n, sizeof *key, by_key);
        far = 1;
    }
    for (size_t i = 1; i < n; i++)
        for (size_t j = i; j-- > 0 && i - j <= far;)
            if (!by_key(&key[j], &key[i]))
                return &key[i];
    return NULL;
}

static int twice(const struct key *k, ptrdiff_t at, struct mf_err *err)
{
    bool plain = mf_key_is_plain(k->p, k->n) && k->n < 100;
    return mf_err_set(err, MF_EFORMAT, "the key '%.*s' is there twice in the map at byte %td of the frame",
                      plain ? (int)k->n : 3, plain ? (const char *)k->p : "...", at);
}

/* Checks that no map in the object at *at has a key twice; *at moves behind it. Strings and bins are compared by
 * content, by which they are looked up. Every head is read once. */
static int check_maps(const uint8_t *base, const uint8_t **at, const uint8_t *end, struct mf_err *err)
{
    const uint8_t *from = *at;
    struct mf_token t;
    struct key few[MF_FEW_KEYS], *key = few;
    int rc = 0;
    mf_token_read(&t, from, (size_t)(end - from));
    bool map = t.type == MF_MAP, nest = map || t.type == MF_LIST;
    *at += t.head + (nest ? 0 : t.n);
    if (map && t.n > MF_PAIRS_MAX)
        return mf_err_set(err, MF_EFORMAT, "a map of more than %d pairs at byte %td of the frame", MF_PAIRS_MAX,
                          from - base);
    if (map && t.n > MF_FEW_KEYS)
        key = mf_xcalloc(t.n, sizeof *key);
    for (uint64_t i = 0; nest && rc == 0 && i < t.n; i++) {
        if (map) {
            const uint8_t *p = *at;
            struct mf_token k;
            mf_token_read(&k, p, (size_t)(end - p));
            bool text = k.type == MF_TEXT || k.type == MF_BYTES;
            rc = check_maps(base, at, end, err);
            key[i] = (struct key){text ? p + k.head : p, text ? k.n : (size_t)(*at - p), text};
        }
        rc = rc ? rc : check_maps(base, at, end, err);
    }
    const struct key *twin = map && rc == 0 ? find_twin(key, t.n) : NULL;
    rc = twin ? twice(twin, from - base, err) : rc;
    if (key != few)
        free(key);
    return rc;
}

/* The pairs of the map at p, as spans in place. *n may be 0 and *field NULL. */
static const uint8_t *next_pair(const uint8_t *at, const uint8_t *end, struct mf_field *field)
{
    size_t key = mf_token_span(at, (size_t)(end - at));
    size_t value = mf_token_span(at + key, (size_t)(end - at) - key);
    *field = (struct mf_field){.key = {.p = at, .n = key}, .value = {.p = at + key, .n = value}};
    return at + key + value;
}

static int split_fields(struct mf_frame *f, struct mf_err *err)
{
    struct mf_token map;
    mf_token_read(&map, f->raw, f->len);
    const uint8_t *at = f->raw + map.head, *end = f->raw + f->len;
    int kind = -1;
    f->field = mf_xcalloc(map.n, sizeof *f->field);
    for (f->n_fields = 0; f->n_fields < (int)map.n; f->n_fields++) {
        struct mf_field *field = &f->field[f->n_fields];
        at = next_pair(at, end, field);
        struct mf_token t;
        if (mf_span_is(field->key.p, field->key.n, "mf") && mf_token_read(&t, field->value.p, field->value.n) == 1 &&
            t.type == MF_TEXT)
            for (kind = 0; kind < MF_OTHER && !mf_span_is(field->value.p, field->value.n, kinds[kind]);)
                kind++;
    }
    if (kind < 0)
        return mf_err_set(err, MF_EFORMAT, "a frame without its kind: a map whose \"mf\" is a string");
    f->kind = (enum mf_kind)kind;
    return 0;
}

static bool lies_aligned(const struct mf_entry *e)
{
    return !e->swap && (uintptr_t)e->came % 8 == 0;
}

static size_t padded(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

/* Memory for arrays that need alignment is allocated here, where a failure can be reported, and used later. */
static int make_store(struct mf_frame *f, struct mf_err *err)
{
    size_t size = 0, at = 0;
    for (int i = 0; i < f->n_entries; i++)
        if (f->entry[i].array && !lies_aligned(&f->entry[i]))
            size += padded(f->entry[i].array->bytes);
    if (size && !(f->store = aligned_alloc(64, size)))
        return mf_err_set(err, MF_ENOMEM, "cannot allocate %zu bytes for the arrays of a frame", size);
    for (int i = 0; i < f->n_entries; i++) {
        struct mf_entry *e = &f->entry[i];
        if (e->array && lies_aligned(e)) {
            e->array->data = (void *)e->came;
        } else if (e->array) {
            e->array->data = f->store ? f->store + at : NULL;
            at += padded(e->array->bytes);
        }
    }
    return 0;
}

static int split_arrays(struct mf_frame *f, struct mf_err *err)
{
    struct mf_token map = {.n = 0};
    const char *name = holder_name(f->kind);
    for (f->holder = f->n_fields - 1; f->holder >= 0; f->holder--)
        if (mf_span_is(f->field[f->holder].key.p, f->field[f->holder].key.n, name))
            break;
    if (f->holder < 0)
        return 0;
    struct mf_span v = f->field[f->holder].value;
    mf_token_read(&map, v.p, v.n);
    if (map.type != MF_MAP)
        return mf_err_set(err, MF_EFORMAT, "%s frame whose \"%s\" is not a map", mf_kind_article(f->kind), name);
    const uint8_t *at = v.p + map.head;
    f->entry = mf_xcalloc(map.n, sizeof *f->entry);
    for (f->n_entries = 0; f->n_entries < (int)map.n; f->n_entries++) {
        struct mf_entry *e = &f->entry[f->n_entries];
        at = next_pair(at, v.p + v.n, &e->field);
        int rc = mf_array_parse(e, err);
        if (rc < 0)
            return rc;
        f->n_arrays += rc;
    }
    return make_store(f, err);
}

/* The first bytes of a recording are a map, too: nine pairs. */
static int check_magic(const uint8_t *raw, size_t len, struct mf_err *err)
{
    if (len < 8 || memcmp(raw, "\211HDF\r\n\032\n", 8) != 0)
        return 0;
    return mf_err_set(
        err, MF_EFORMAT,
        "an HDF5 file, not a stream: mf-replay makes a stream of a recording, mf-data lists its contents");
}

/* raw is one whole map; the frame takes it, also on error. */
static int adopt(struct mf_frame **out, uint8_t *raw, size_t len, struct mf_err *err)
{
    struct mf_frame *f = mf_xcalloc(1, sizeof *f);
    const uint8_t *at = raw;
    int rc;
    f->raw = raw;
    f->len = len;
    f->holder = -1;
    if ((rc = check_magic(raw, len, err)) || (rc = check_maps(raw, &at, raw + len, err)) ||
        (rc = split_fields(f, err)) || (rc = split_arrays(f, err))) {
        mf_frame_free(f);
        return rc;
    }
    *out = f;
    return 0;
}

int mf_frame_recv(struct mf_port *in, struct mf_port *watch, struct mf_frame **f, struct mf_err *err)
{
    void *raw;
    size_t len;
    int rc = mf_port_take(in, watch, &raw, &len, err);
    if (rc != 1)
        return rc;
    rc = adopt(f, raw, len, err);
    return rc ? mf_err_at(err, "%s", mf_port_name(in)) : 1;
}

int mf_frame_decode(struct mf_frame **f, const void *data, size_t len, struct mf_err *err)
{
    struct mf_token t;
    if (mf_token_read(&t, data, len) != 1 || t.type != MF_MAP || len > MF_FRAME_MAX || mf_token_span(data, len) != len)
        return mf_err_set(err, MF_EFORMAT, "%zu bytes that are not one whole frame", len);
    uint8_t *raw = malloc(len);
    if (!raw)
        return mf_err_set(err, MF_ENOMEM, "cannot allocate %zu bytes for a frame", len);
    memcpy(raw, data, len);
    return adopt(f, raw, len, err);
}

/* ---- going out ---- */

struct gather {
    struct iovec *part;
    int parts;
    size_t len;
    uint8_t head[2][5]; /* of the frame, and of its arrays */
};

/* Adjacent parts are joined. */
static void put(struct gather *g, const void *p, size_t n)
{
    struct iovec *last = g->parts ? &g->part[g->parts - 1] : NULL;
    g->len += n;
    if (last && (const uint8_t *)last->iov_base + last->iov_len == p)
        last->iov_len += n;
    else
        g->part[g->parts++] = (struct iovec){(void *)p, n};
}

static void put_map(struct gather *g, uint8_t head[5], int pairs)
{
    size_t n = pairs < 16 ? 1 : pairs < 1 << 16 ? 3 : 5;
    head[0] = n == 1 ? (uint8_t)(0x80 | pairs) : n == 3 ? 0xde : 0xdf;
    for (size_t i = 1; i < n; i++)
        head[i] = (uint8_t)(pairs >> 8 * (n - 1 - i));
    put(g, head, n);
}

static void gather(const struct mf_frame *f, struct gather *g)
{
    g->part = mf_xcalloc((size_t)(2 + 2 * f->n_fields + 3 * f->n_entries), sizeof *g->part);
    if (!f->changed) {
        put(g, f->raw, f->len);
        return;
    }
    put_map(g, g->head[0], f->n_fields);
    for (int i = 0; i < f->n_fields; i++) {
        const struct mf_field *field = &f->field[i];
        put(g, field->key.p, field->key.n);
        if (i != f->holder) {
            put(g, field->value.p, field->value.n);
            continue;
        }
        put_map(g, g->head[1], f->n_entries);
        for (int j = 0; j < f->n_entries; j++) {
            const struct mf_entry *e = &f->entry[j];
            put(g, e->field.key.p, e->field.key.n);
            put(g, e->field.value.p, e->field.value.n);
            if (e->added)
                put(g, e->array->data, e->array->bytes);
        }
    }
}

int mf_frame_send(struct mf_port *out, const struct mf_frame *f, struct mf_err *err)
{
    struct gather g = {0};
    gather(f, &g);
    int rc = mf_port_sendv(out, g.part, g.parts, err);
    free(g.part);
    return rc;
}

int mf_frame_encode(const struct mf_frame *f, void **data, size_t *len, struct mf_err *err)
{
    struct gather g = {0};
    gather(f, &g);
    uint8_t *to = malloc(g.len);
    *len = 0;
    for (int i = 0; to && i < g.parts; i++) {
        memcpy(to + *len, g.part[i].iov_base, g.part[i].iov_len);
        *len += g.part[i].iov_len;
    }
    free(g.part);
    *data = to;
    return to ? 0 : mf_err_set(err, MF_ENOMEM, "cannot allocate %zu bytes for a frame", g.len);
}
