#include "import/torch_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"

/* ---- numbers ---- */

#define NUMBER(name, type)                                                                                             \
    static float name##_number(const void *p)                                                                          \
    {                                                                                                                  \
        type v;                                                                                                        \
        memcpy(&v, p, sizeof v);                                                                                       \
        return (float)v;                                                                                               \
    }
NUMBER(f32, float)
NUMBER(f64, double)
NUMBER(i8, int8_t)
NUMBER(u8, uint8_t)
NUMBER(i16, int16_t)
NUMBER(u16, uint16_t)
NUMBER(i32, int32_t)
NUMBER(u32, uint32_t)
NUMBER(i64, int64_t)
NUMBER(u64, uint64_t)

static float bf16_number(const void *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return mf_bfloat(h);
}

static float f16_number(const void *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return mf_half(h);
}

static const struct mf_torch_dtype dtypes[] = {
    {"float32", "FloatStorage", 4, f32_number},
    {"float64", "DoubleStorage", 8, f64_number},
    {"float16", "HalfStorage", 2, f16_number},
    {"bfloat16", "BFloat16Storage", 2, bf16_number},
    {"int8", "CharStorage", 1, i8_number},
    {"uint8", "ByteStorage", 1, u8_number},
    {"int16", "ShortStorage", 2, i16_number},
    {"int32", "IntStorage", 4, i32_number},
    {"int64", "LongStorage", 8, i64_number},
    {"bool", "BoolStorage", 1, u8_number},
    {"uint16", "", 2, u16_number},
    {"uint32", "", 4, u32_number},
    {"uint64", "", 8, u64_number},
    {"complex64", "ComplexFloatStorage", 8, NULL},
    {"complex128", "ComplexDoubleStorage", 16, NULL},
    {"float8_e4m3fn", "", 1, NULL},
    {"float8_e5m2", "", 1, NULL},
};

const struct mf_torch_dtype *mf_torch_dtype(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes && n; i++) {
        const char *const words[] = {dtypes[i].name, dtypes[i].storage};
        for (int j = 0; j < 2; j++)
            if (strlen(words[j]) == n && !memcmp(words[j], name, n))
                return &dtypes[i];
    }
    return NULL;
}

const struct mf_torch_dtype *mf_torch_dtype_of(enum mf_dtype dtype)
{
    static const char *const name[] = {
        [MF_F32] = "float32", [MF_F64] = "float64", [MF_F16] = "float16", [MF_BFLOAT] = "bfloat16", [MF_I8] = "int8",
        [MF_I16] = "int16",   [MF_I32] = "int32",   [MF_I64] = "int64",   [MF_U8] = "uint8",        [MF_U16] = "uint16",
        [MF_U32] = "uint32",  [MF_U64] = "uint64",  [MF_B1] = "bool",
    };
    return mf_torch_dtype(name[dtype], strlen(name[dtype]));
}

/* ---- open ---- */

/* The folder of all entries, whose name stands before "/data.pkl". */
static int find_root(const struct mf_zip *z, char root[256], struct mf_err *err)
{
    static const char tail[] = "/data.pkl";
    for (int i = 0; i < z->n; i++) {
        const char *name = z->entry[i].name;
        const size_t n = strcspn(name, "/");
        if (n == 0 || n > 200 || strcmp(name + n, tail))
            continue;
        sprintf(root, "%.*s", (int)n, name);
        return 0;
    }
    return mf_err_set(err, MF_EFORMAT,
                      "%s is a zip file, but holds no data.pkl in a folder, so torch.save did not write it", z->path);
}

static const struct mf_zip_entry *entry(const struct mf_zip *z, const char *root, const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", root, name);
    return mf_zip_find(z, path);
}

static int check_kind(const struct mf_zip *z, const char *root, struct mf_err *err)
{
    const struct mf_zip_entry *order = entry(z, root, "byteorder");
    char word[3];
    if (order && order->size == sizeof word && !mf_zip_read(z, order, 0, sizeof word, word, err) &&
        !memcmp(word, "big", sizeof word))
        return mf_err_set(err, MF_EFORMAT,
                          "%s was written on a big-endian machine; torch.load and torch.save on a usual one", z->path);
    if (entry(z, root, "constants.pkl"))
        return mf_err_set(err, MF_EFORMAT,
                          "%s is a TorchScript program; torch.save(torch.jit.load(FILE).state_dict(), NEW) takes its "
                          "weights out",
                          z->path);
    return 0;
}

/* Bytes [from, from + n) of an entry, for free(). */
static int read_bytes(const struct mf_zip *z, const struct mf_zip_entry *e, size_t from, size_t n, uint8_t **bytes,
                      struct mf_err *err)
{
    if (!(*bytes = malloc(n + 1)))
        return mf_err_set(err, MF_ENOMEM, "cannot allocate %zu bytes of %.60s of %s", n, e->name, z->path);
    int rc = mf_zip_read(z, e, from, n, *bytes, err);
    if (rc) {
        free(*bytes);
        *bytes = NULL;
    }
    return rc;
}

enum { INFLATES = 64 }; /* size of a pickle, at most: so many times its bytes in the file, and 1 MiB */

static int read_tree(struct mf_torch *f, struct mf_err *err)
{
    char root[256];
    uint8_t *bytes;
    struct mf_pickle p;
    int rc = find_root(&f->zip, root, err);
    if (rc || (rc = check_kind(&f->zip, root, err)))
        return rc;
    const struct mf_zip_entry *e = entry(&f->zip, root, "data.pkl");
    const size_t most = e->packed < MF_PICKLE_MAX / INFLATES ? (1 << 20) + INFLATES * e->packed : MF_PICKLE_MAX;
    if (e->size > most)
        return mf_err_set(err, MF_EFORMAT, "the pickle of %s has %zu bytes, in %zu of the file; at most %zu are read",
                          f->zip.path, e->size, e->packed, most);
    if ((rc = read_bytes(&f->zip, e, 0, e->size, &bytes, err)))
        return rc;
    if (!(rc = mf_pickle_parse(&p, bytes, e->size, e->packed, f->zip.path, err))) {
        rc = mf_torch_walk(f, p.root, root, err);
        mf_pickle_release(&p);
    }
    free(bytes);
    return rc;
}

int mf_torch_parse(struct mf_torch *f, const void *bytes, size_t size, const char *path, struct mf_err *err)
{
    *f = (struct mf_torch){0};
    int rc = mf_zip_parse(&f->zip, bytes, size, path, err);
    if (!rc && (rc = read_tree(f, err)))
        mf_torch_close(f);
    return rc;
}

int mf_torch_open(struct mf_torch *f, const char *path, struct mf_err *err)
{
    *f = (struct mf_torch){0};
    if (mf_torch_is_safetensors(path))
        return mf_torch_open_safetensors(f, path, err);
    int rc = mf_zip_open(&f->zip, path, err);
    if (!rc && (rc = read_tree(f, err)))
        mf_torch_close(f);
    return rc;
}

void mf_torch_close(struct mf_torch *f)
{
    for (int i = 0; i < f->n; i++)
        free(f->tensor[i].name);
    for (int i = 0; i < f->n_values; i++) {
        free(f->value[i].name);
        free(f->value[i].text);
    }
    free(f->tensor);
    free(f->value);
    free(f->span);
    mf_torch_close_safetensors(f);
    mf_zip_close(&f->zip);
    *f = (struct mf_torch){0};
}

/* ---- read ---- */

static bool contiguous(const struct mf_torch_tensor *t)
{
    size_t step = 1;
    for (int i = t->rank - 1; i >= 0; step *= t->dim[i--])
        if (t->dim[i] != 1 && t->stride[i] != step)
            return false;
    return true;
}

/* Where element i of C order lies in the storage, in elements. */
static size_t place(const struct mf_torch_tensor *t, size_t i)
{
    size_t at = t->offset;
    for (int d = t->rank - 1; d >= 0; d--) {
        at += i % t->dim[d] * t->stride[d];
        i /= t->dim[d];
    }
    return at;
}

/* Bytes of the storage from the first to the last one that the tensor, which is not empty, uses. */
static size_t span(const struct mf_torch_tensor *t)
{
    return (place(t, t->count - 1) + 1 - t->offset) * t->dtype->size;
}

/* Reads it into f->span, which is kept for the next piece of the tensor. */
static int read_span(struct mf_torch *f, const struct mf_torch_tensor *t, struct mf_err *err)
{
    enum { FREE = 1 << 20, SPREAD = 64 };
    const size_t size = t->dtype->size, n = span(t), at = t->offset * size;
    if (f->span_of == t->storage && f->span_at == at && f->span_size == n)
        return 0;
    free(f->span);
    f->span = NULL;
    f->span_of = NULL;
    if (t->storage->deflated && n > FREE && n / SPREAD > t->count * size)
        return mf_err_set(err, MF_EFORMAT,
                          "%s of %s is spread over %zu compressed bytes, of which it uses %zu: save a .clone() of it",
                          t->name, f->zip.path, n, t->count * size);
    int rc = read_bytes(&f->zip, t->storage, at, n, &f->span, err);
    f->span_of = rc ? NULL : t->storage;
    f->span_at = at;
    f->span_size = n;
    return rc;
}

/* Numbers that lie in the file in C order. */
static int read_straight(struct mf_torch *f, const struct mf_torch_tensor *t, size_t first, size_t n, float *to,
                         struct mf_err *err)
{
    const size_t size = t->dtype->size, at = (t->offset + first) * size;
    if (t->dtype->number == f32_number)
        return mf_zip_read(&f->zip, t->storage, at, n * size, to, err);
    char piece[1 << 16];
    int rc = 0;
    for (size_t done = 0, m; done < n && !rc; done += m) {
        m = n - done < sizeof piece / size ? n - done : sizeof piece / size;
        rc = mf_zip_read(&f->zip, t->storage, at + done * size, m * size, piece, err);
        for (size_t i = 0; i < m && !rc; i++)
            to[done + i] = t->dtype->number(piece + i * size);
    }
    return rc;
}

int mf_torch_read(struct mf_torch *f, const struct mf_torch_tensor *t, size_t first, size_t n, float *to,
                  struct mf_err *err)
{
    if (!t->dtype->number)
        return mf_err_set(err, MF_EFORMAT, "%s of %s is %s, not a real number", t->name, f->zip.path, t->dtype->name);
    if (t->count == 0)
        return 0;
    for (size_t i = 0; i < n && t->mapped; i++)
        to[i] = t->dtype->number((const char *)t->mapped + place(t, first + i) * t->dtype->size);
    if (t->mapped)
        return 0;
    if (contiguous(t) && !t->storage->deflated)
        return read_straight(f, t, first, n, to, err);
    int rc = read_span(f, t, err);
    for (size_t i = 0; i < n && !rc; i++)
        to[i] = t->dtype->number(f->span + (place(t, first + i) - t->offset) * t->dtype->size);
    return rc;
}

/* ---- values ---- */

static const char *find(const struct mf_torch *f, const char *root, const char *name, size_t n)
{
    size_t before = strlen(root);
    for (int i = 0; i < f->n_values; i++) {
        const char *at = f->value[i].name;
        if (!strncmp(at, root, before) && at[before] == '.' && strlen(at + before + 1) == n &&
            !memcmp(at + before + 1, name, n))
            return f->value[i].text;
    }
    return NULL;
}

const char *mf_torch_value(const struct mf_torch *f, const char *root, const char *name)
{
    const char *text = find(f, root, name, strlen(name));
    for (int i = 0; i < 8 && text && !strncmp(text, "${", 2) && text[strlen(text) - 1] == '}'; i++)
        text = find(f, root, text + 2, strlen(text) - 3);
    return text;
}
