#include <msgpack.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/mem.h"
#include "stream/frame_priv.h"

static const struct {
    char name[9];
    uint8_t size;
} dtypes[] = {
    [MF_F32] = {"<f4", 4},         [MF_F64] = {"<f8", 8}, [MF_U8] = {"|u1", 1},  [MF_I8] = {"|i1", 1},
    [MF_I32] = {"<i4", 4},         [MF_I64] = {"<i8", 8}, [MF_U32] = {"<u4", 4}, [MF_U64] = {"<u8", 8},
    [MF_I16] = {"<i2", 2},         [MF_U16] = {"<u2", 2}, [MF_F16] = {"<f2", 2}, [MF_B1] = {"|b1", 1},
    [MF_BFLOAT] = {"bfloat16", 2},
};

size_t mf_dtype_size(enum mf_dtype dtype)
{
    return dtypes[dtype].size;
}

const char *mf_dtype_name(enum mf_dtype dtype)
{
    return dtypes[dtype].name;
}

void mf_array_floats(const struct mf_array *a, size_t first, size_t n, float *to)
{
    const char *from = (const char *)a->data + first * mf_dtype_size(a->dtype);
    if (a->dtype == MF_BFLOAT)
        mf_floats_of_bf16(n, from, to);
    else
        memcpy(to, from, n * sizeof *to);
}

bool mf_span_begins(const uint8_t *p, size_t n, const char *path, const char **rest)
{
    struct mf_token t;
    if (mf_token_read(&t, p, n) != 1 || (t.type != MF_TEXT && t.type != MF_BYTES))
        return false;
    for (const uint8_t *key = p + t.head, *end = key + t.n; key < end; key++, path++) {
        path += *path == '\\' && path[1];
        if (!*path || (uint8_t)*path != *key)
            return false;
    }
    *rest = path;
    return *path == '\0' || *path == '.';
}

bool mf_span_is(const uint8_t *p, size_t n, const char *text)
{
    struct mf_token t;
    return mf_token_read(&t, p, n) == 1 && (t.type == MF_TEXT || t.type == MF_BYTES) && strlen(text) == t.n &&
           !memcmp(p + t.head, text, t.n);
}

enum { ND, TYPE, KIND, SHAPE, DATA, PARTS };

/* The values of the maps by which arrays travel, whatever their order: msgpack-numpy's and openpi's names. */
static bool take_apart(const uint8_t *p, size_t n, struct mf_span part[PARTS])
{
    static const struct {
        char text[12];
        uint8_t n, part;
    } word[] = {{"nd", 2, ND},     {"type", 4, TYPE},  {"kind", 4, KIND},      {"shape", 5, SHAPE},
                {"data", 4, DATA}, {"dtype", 5, TYPE}, {"__ndarray__", 11, ND}};
    const uint8_t *end = p + n;
    struct mf_token t, k;
    memset(part, 0, PARTS * sizeof *part);
    if (mf_token_read(&t, p, n) != 1 || t.type != MF_MAP)
        return false;
    p += t.head;
    for (uint64_t i = 0; i < t.n; i++) {
        size_t key = mf_token_span(p, (size_t)(end - p));
        size_t value = mf_token_span(p + key, (size_t)(end - p) - key);
        mf_token_read(&k, p, key);
        for (size_t w = 0; w < sizeof word / sizeof *word && (k.type == MF_TEXT || k.type == MF_BYTES); w++)
            if (k.n == word[w].n && !memcmp(p + k.head, word[w].text, k.n))
                part[word[w].part] = (struct mf_span){.p = p + key, .n = value};
        p += key + value;
    }
    return part[ND].p && part[TYPE].p && part[DATA].p;
}

/* '<f4', '>f4', '|u1', 'f4'. A type that is not in the table is no error: such an array passes through. */
static bool parse_dtype(const struct mf_span *s, enum mf_dtype *dtype, bool *swap)
{
    struct mf_token t;
    if (mf_token_read(&t, s->p, s->n) != 1 || (t.type != MF_TEXT && t.type != MF_BYTES) || t.n < 2 || t.n > 3)
        return false;
    const uint8_t *name = s->p + t.head;
    *swap = t.n == 3 && name[0] == '>';
    if (t.n == 3 && !strchr("<>=|", name[0]))
        return false;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (i != MF_BFLOAT && !memcmp(dtypes[i].name + 1, name + t.n - 2, 2)) { /* bfloat16 is a type of files alone */
            *dtype = (enum mf_dtype)i;
            return true;
        }
    return false;
}

/* A product that fits, also where a zero among the dims would hide that it does not. */
static bool parse_shape(const struct mf_span *s, struct mf_array *a)
{
    struct mf_token t, d;
    size_t product = mf_dtype_size(a->dtype);
    const uint8_t *p = s->p;
    if (!p || mf_token_read(&t, p, s->n) != 1 || t.type != MF_LIST || t.n > MF_RANK_MAX)
        return false;
    p += t.head;
    a->count = 1;
    for (a->rank = 0; a->rank < (int)t.n; a->rank++, p += d.head) {
        if (mf_token_read(&d, p, s->n - (size_t)(p - s->p)) != 1 || d.type != MF_UINT)
            return false;
        a->dim[a->rank] = d.u;
        a->count *= d.u;
        if (d.u && __builtin_mul_overflow(product, d.u, &product))
            return false;
    }
    a->bytes = a->count * mf_dtype_size(a->dtype);
    return product <= SIZE_MAX >> 2;
}

bool mf_key_is_plain(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] < ' ' || p[i] == 0x7f)
            return false;
    return true;
}

static bool take_name(struct mf_array *a, const struct mf_span *key)
{
    struct mf_token t;
    if (mf_token_read(&t, key->p, key->n) != 1 || (t.type != MF_TEXT && t.type != MF_BYTES) || t.n >= sizeof a->name ||
        !mf_key_is_plain(key->p + t.head, t.n))
        return false;
    memcpy(a->name, key->p + t.head, t.n);
    return true;
}

int mf_array_parse(struct mf_entry *e, struct mf_err *err)
{
    struct mf_span part[PARTS];
    struct mf_array a = {.rank = 0};
    struct mf_token t;
    if (!take_name(&a, &e->field.key) || !take_apart(e->field.value.p, e->field.value.n, part) ||
        mf_token_read(&t, part[ND].p, part[ND].n) != 1 || t.type != MF_TRUTH || !t.truth)
        return 0;
    if ((part[KIND].p && mf_span_is(part[KIND].p, part[KIND].n, "O")) || mf_span_is(part[TYPE].p, part[TYPE].n, "|O"))
        return mf_err_set(err, MF_EFORMAT, "array '%s' holds Python objects (a pickle), which is refused", a.name);
    if (!parse_dtype(&part[TYPE], &a.dtype, &e->swap))
        return 0;
    if (!parse_shape(&part[SHAPE], &a))
        return mf_err_set(err, MF_EFORMAT, "array '%s' has no shape: a list of at most %d sizes", a.name, MF_RANK_MAX);
    if (mf_token_read(&t, part[DATA].p, part[DATA].n) != 1 || (t.type != MF_BYTES && t.type != MF_TEXT))
        return mf_err_set(err, MF_EFORMAT, "array '%s' has no bytes as its data", a.name);
    if (t.n != a.bytes)
        return mf_err_set(err, MF_EFORMAT, "array '%s' has %llu bytes of data where its shape and type '%s' need %zu",
                          a.name, (unsigned long long)t.n, mf_dtype_name(a.dtype), a.bytes);
    e->came = part[DATA].p + t.head;
    e->array = mf_xcalloc(1, sizeof a);
    *e->array = a;
    return 1;
}

static void copy_swapped(uint8_t *to, const uint8_t *from, size_t n, size_t size)
{
    for (size_t i = 0; i < n; i += size)
        for (size_t j = 0; j < size; j++)
            to[i + j] = from[i + size - 1 - j];
}

void mf_array_fill(struct mf_entry *e)
{
    struct mf_array *a = e->array;
    if (e->swap && e->came)
        copy_swapped(a->data, e->came, a->bytes, mf_dtype_size(a->dtype));
    else if (e->came && e->came != a->data)
        memcpy(a->data, e->came, a->bytes);
    e->came = NULL;
}

bool mf_array_scalar(const uint8_t *p, size_t n, struct mf_token *t)
{
    struct mf_span part[PARTS];
    enum mf_dtype dtype;
    bool swap;
    uint8_t b[8] = {0};
    struct mf_token data;
    if (!take_apart(p, n, part) || mf_token_read(t, part[ND].p, part[ND].n) != 1 || t->type != MF_TRUTH || t->truth ||
        !parse_dtype(&part[TYPE], &dtype, &swap) || mf_token_read(&data, part[DATA].p, part[DATA].n) != 1 ||
        (data.type != MF_BYTES && data.type != MF_TEXT) || data.n != mf_dtype_size(dtype))
        return false;
    const uint8_t *from = part[DATA].p + data.head;
    swap ? copy_swapped(b, from, data.n, data.n) : (void)memcpy(b, from, data.n);
    uint64_t u;
    float f;
    memcpy(&u, b, sizeof u);
    memcpy(&f, b, sizeof f);
    int unused = 64 - 8 * (int)data.n;
    *t = (struct mf_token){.type = MF_UINT, .u = u};
    switch (dtype) {
    case MF_F32:
        *t = (struct mf_token){.type = MF_REAL, .f = (double)f};
        return true;
    case MF_F64:
        t->type = MF_REAL;
        return true;
    case MF_F16:
        return false;
    case MF_I8:
    case MF_I16:
    case MF_I32:
    case MF_I64:
        t->i = (int64_t)(u << unused) >> unused;
        t->type = t->i < 0 ? MF_SINT : MF_UINT;
        return true;
    default:
        return true;
    }
}

/* The five pairs in msgpack-numpy's order, down to the head of the data. */
static void pack_head(msgpack_sbuffer *to, const struct mf_array *a)
{
    static const char *const key[] = {"nd", "type", "kind", "shape", "data"};
    const char *type = mf_dtype_name(a->dtype);
    msgpack_packer pk;
    msgpack_packer_init(&pk, to, msgpack_sbuffer_write);
    msgpack_pack_map(&pk, PARTS);
    for (int i = 0; i < PARTS; i++) {
        msgpack_pack_bin_with_body(&pk, key[i], strlen(key[i]));
        if (i == ND)
            msgpack_pack_true(&pk);
        else if (i == TYPE)
            msgpack_pack_str_with_body(&pk, type, strlen(type));
        else if (i == KIND)
            msgpack_pack_bin(&pk, 0);
        else if (i == SHAPE) {
            msgpack_pack_array(&pk, (size_t)a->rank);
            for (int d = 0; d < a->rank; d++)
                msgpack_pack_uint64(&pk, a->dim[d]);
        } else
            msgpack_pack_bin(&pk, a->bytes);
    }
}

static struct mf_entry *entry_of(const struct mf_frame *f, const char *name)
{
    for (int i = 0; i < f->n_entries; i++)
        if (mf_span_is(f->entry[i].field.key.p, f->entry[i].field.key.n, name))
            return &f->entry[i];
    return NULL;
}

/* A name may hold dots, so this is not the path of a field. */
static struct mf_entry *new_entry(struct mf_frame *f, const char *name)
{
    msgpack_sbuffer b = mf_few_bytes();
    msgpack_packer pk;
    msgpack_packer_init(&pk, &b, msgpack_sbuffer_write);
    msgpack_pack_str_with_body(&pk, name, strlen(name));
    f->entry = mf_xrealloc(f->entry, (size_t)f->n_entries + 1, sizeof *f->entry);
    struct mf_entry *e = &f->entry[f->n_entries++];
    *e = (struct mf_entry){.field.key = {(uint8_t *)b.data, b.size, (uint8_t *)b.data}};
    return e;
}

int mf_frame_add(struct mf_frame *f, const char *name, enum mf_dtype dtype, int rank, const size_t *dim, void **data,
                 struct mf_err *err)
{
    struct mf_array a = {.dtype = dtype, .rank = rank, .count = 1};
    void *bytes;
    if (rank < 0 || rank > MF_RANK_MAX || strlen(name) >= sizeof a.name)
        return mf_err_set(err, MF_EFORMAT, "array '%s' has more than %d sizes, or a name of %d bytes or more", name,
                          MF_RANK_MAX, MF_NAME_MAX);
    strcpy(a.name, name);
    for (int i = 0; i < rank; i++) {
        a.dim[i] = dim[i];
        if (__builtin_mul_overflow(a.count, dim[i], &a.count))
            return mf_err_set(err, MF_EFORMAT, "array '%s' has more elements than can be counted", name);
    }
    a.bytes = a.count * mf_dtype_size(dtype);
    if (a.count > MF_FRAME_MAX / mf_dtype_size(dtype))
        return mf_err_set(err, MF_EFORMAT, "array '%s' of %zu elements does not fit into a frame of 1 GiB", name,
                          a.count);
    int rc = mf_alloc(&bytes, a.bytes, name, err);
    if (rc)
        return rc;
    mf_frame_hold(f);
    struct mf_entry *e = entry_of(f, name);
    if (!e)
        e = new_entry(f, name);
    if (e->array && e->added)
        free(e->array->data);
    if (!e->array) {
        e->array = mf_xcalloc(1, sizeof a);
        f->n_arrays++;
    }
    free(e->field.value.own);
    msgpack_sbuffer head = mf_few_bytes();
    pack_head(&head, &a);
    a.data = bytes;
    *e->array = a;
    e->field.value = (struct mf_span){(uint8_t *)head.data, head.size, (uint8_t *)head.data};
    e->came = NULL;
    e->added = true;
    f->changed = true;
    *data = bytes;
    return 0;
}

int mf_frame_arrays(const struct mf_frame *f)
{
    return f->n_arrays;
}

struct mf_array *mf_frame_array(const struct mf_frame *f, int i)
{
    for (int j = 0; j < f->n_entries; j++)
        if (f->entry[j].array && i-- == 0) {
            mf_array_fill(&f->entry[j]);
            return f->entry[j].array;
        }
    return NULL;
}

struct mf_array *mf_frame_find(const struct mf_frame *f, const char *name)
{
    struct mf_entry *e = entry_of(f, name);
    if (!e || !e->array)
        return NULL;
    mf_array_fill(e);
    return e->array;
}
