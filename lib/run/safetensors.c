#include "run/safetensors.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/map.h"
#include "base/mem.h"
#include "run/safetensors_priv.h"
#include "stream/json.h"

static const struct {
    const char *word;
    enum mf_dtype dtype;
} dtypes[] = {{"F32", MF_F32}, {"F64", MF_F64}, {"F16", MF_F16}, {"BF16", MF_BFLOAT}, {"U8", MF_U8},
              {"I8", MF_I8},   {"BOOL", MF_B1}, {"I16", MF_I16}, {"U16", MF_U16},     {"I32", MF_I32},
              {"U32", MF_U32}, {"I64", MF_I64}, {"U64", MF_U64}};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

const char *mf_safetensors_word(enum mf_dtype dtype)
{
    for (int i = 0; i < DTYPES; i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].word;
    return "?";
}

struct parsing {
    struct mf_safetensors *f;
    const char *base; /* base and the room after it are the file's tensors */
    size_t room;
    struct mf_err *err;
};

static int dtype_of(const struct parsing *r, const char *tensor, const char *word, enum mf_dtype *dtype)
{
    for (int i = 0; i < DTYPES; i++)
        if (!strcmp(dtypes[i].word, word)) {
            *dtype = dtypes[i].dtype;
            return 0;
        }
    return mf_err_set(r->err, MF_EFORMAT, "tensor %.100s has the dtype %.32s, which is not read here", tensor, word);
}

/* [n, n, ...] of at most max non-negative integers; returns how many, or an error. */
static int sizes(const struct parsing *r, const char *tensor, const char *field, const json_t *list, size_t *v, int max)
{
    const int n = (int)json_array_size(list);
    if (!json_is_array(list) || n > max)
        return mf_err_set(r->err, MF_EFORMAT, "%s of tensor %s is not a list of at most %d numbers", field, tensor,
                          max);
    for (int i = 0; i < n; i++) {
        const json_t *number = json_array_get(list, (size_t)i);
        if (!json_is_integer(number) || json_integer_value(number) < 0)
            return mf_err_set(r->err, MF_EFORMAT, "%s of tensor %s holds something that is not a non-negative integer",
                              field, tensor);
        v[i] = (size_t)json_integer_value(number);
    }
    return n;
}

static int tensor(const struct parsing *r, const char *name, json_t *fields, struct mf_array *a)
{
    json_error_t why;
    json_t *shape, *offsets;
    const char *dtype;
    size_t at[2];
    *a = (struct mf_array){.count = 1};
    if (strlen(name) >= sizeof a->name)
        return mf_err_set(r->err, MF_EFORMAT, "the name %.60s.. is longer than %d bytes", name, MF_NAME_MAX - 1);
    strcpy(a->name, name);
    if (json_unpack_ex(fields, &why, 0, "{s:s, s:o, s:o !}", "dtype", &dtype, "shape", &shape, "data_offsets",
                       &offsets))
        return mf_err_set(r->err, MF_EFORMAT, "tensor %s: %s", name, why.text);
    int rc = dtype_of(r, name, dtype, &a->dtype);
    if (rc || (rc = a->rank = sizes(r, name, "shape", shape, a->dim, MF_RANK_MAX)) < 0 ||
        (rc = sizes(r, name, "data_offsets", offsets, at, 2)) < 0)
        return rc;
    if (rc != 2)
        return mf_err_set(r->err, MF_EFORMAT, "data_offsets of tensor %s are not two", name);
    bool huge = false;
    for (int i = 0; i < a->rank; i++)
        huge |= __builtin_mul_overflow(a->count, a->dim[i], &a->count);
    if (huge || __builtin_mul_overflow(a->count, mf_dtype_size(a->dtype), &a->bytes))
        return mf_err_set(r->err, MF_EFORMAT, "the size of tensor %s does not fit 64 bits", name);
    if (at[0] > at[1] || at[1] - at[0] != a->bytes)
        return mf_err_set(r->err, MF_EFORMAT,
                          "data_offsets [%zu, %zu] of tensor %s do not span the %zu bytes of its shape", at[0], at[1],
                          name, a->bytes);
    if (at[1] > r->room)
        return mf_err_set(
            r->err, MF_EFORMAT,
            "tensor %s ends at byte %zu, and the file has %zu bytes of tensors: it is half-written or cut", name, at[1],
            r->room);
    a->data = (void *)(uintptr_t)(r->base + at[0]);
    return 0;
}

static int metadata(const struct parsing *r, json_t *texts)
{
    const char *key;
    json_t *text;
    if (!json_is_object(texts))
        return mf_err_set(r->err, MF_EFORMAT, "its __metadata__ is not an object");
    int rc = mf_alloc((void **)&r->f->meta, json_object_size(texts) * sizeof *r->f->meta, "a list of metadata", r->err);
    if (rc)
        return rc;
    json_object_foreach(texts, key, text)
    {
        if (!json_is_string(text))
            return mf_err_set(r->err, MF_EFORMAT, "%.100s of its __metadata__ is not a string", key);
        r->f->meta[r->f->n_meta++] = (struct mf_meta){key, json_string_value(text)};
    }
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct mf_array *x = a, *y = b;
    if (x->data != y->data)
        return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* The parts that no single entry shows: holes, overlaps, a rest. */
static int whole(const struct parsing *r)
{
    struct mf_safetensors *f = r->f;
    size_t used = 0;
    if (f->n)
        qsort(f->tensors, (size_t)f->n, sizeof *f->tensors, by_place);
    for (int i = 0; i < f->n; i++) {
        const struct mf_array *a = &f->tensors[i];
        size_t begin = (size_t)((const char *)a->data - r->base);
        if (begin != used)
            return mf_err_set(r->err, MF_EFORMAT, "%s before tensor %s at byte %zu of the tensors",
                              begin > used ? "a hole" : "an overlap", a->name, begin);
        used += a->bytes;
    }
    if (used != r->room)
        return mf_err_set(r->err, MF_EFORMAT, "%zu bytes follow its last tensor", r->room - used);
    mf_safetensors_sort(f->tensors, f->n, f->meta, f->n_meta);
    return 0;
}

static int header(const struct parsing *r)
{
    struct mf_safetensors *f = r->f;
    const char *name;
    json_t *value;
    int rc = mf_json_parse(&f->json, f->header, f->header_size, r->err);
    if (rc)
        return mf_err_at(r->err, "its header");
    rc = mf_alloc((void **)&f->tensors, json_object_size(f->json) * sizeof *f->tensors, "a list of tensors", r->err);
    if (rc)
        return rc;
    json_object_foreach(f->json, name, value)
    {
        if (!strcmp(name, "__metadata__"))
            rc = metadata(r, value);
        else
            rc = tensor(r, name, value, &f->tensors[f->n++]);
        if (rc)
            return rc;
    }
    return whole(r);
}

static const char *what_else(const char *p, size_t n)
{
    static const struct {
        const char *begins, *means;
    } known[] = {
        {"PK\003\004",
         "is a PyTorch zip file (.pt, .ckpt), not a safetensors file; safetensors.torch.save_file writes one"},
        {"version https://git-lfs", "is a Git LFS pointer, not the file itself; `git lfs pull` fetches it"},
        {"\211HDF", "is an HDF5 file, not a safetensors file"},
        {"\200", "is a Python pickle, not a safetensors file"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (n >= strlen(known[i].begins) && !memcmp(p, known[i].begins, strlen(known[i].begins)))
            return known[i].means;
    return NULL;
}

static int find_header(struct mf_safetensors *f, const char *p, size_t size, struct mf_err *err)
{
    uint64_t length = 0;
    if (size < 10)
        return mf_err_set(err, MF_EFORMAT, "it has %zu bytes, too few for a header", size);
    if (p[8] != '{')
        return mf_err_set(err, MF_EFORMAT, "its header does not begin with '{'");
    for (int i = 7; i >= 0; i--)
        length = length << 8 | (unsigned char)p[i];
    if (length < 2 || length > MF_SAFETENSORS_HEADER_MAX)
        return mf_err_set(err, MF_EFORMAT, "its header would be %ju bytes long (2 to %d are allowed)",
                          (uintmax_t)length, MF_SAFETENSORS_HEADER_MAX);
    if (length > size - 8)
        return mf_err_set(err, MF_EFORMAT,
                          "its header of %ju bytes ends beyond the file's %zu bytes: it is half-written or cut",
                          (uintmax_t)length, size);
    f->header = p + 8;
    f->header_size = length;
    return 0;
}

int mf_safetensors_parse(struct mf_safetensors *f, const void *bytes, size_t size, const char *name, struct mf_err *err)
{
    *f = (struct mf_safetensors){0};
    int rc = find_header(f, bytes, size, err);
    const char *other = size > 8 && ((const char *)bytes)[8] == '{' ? NULL : what_else(bytes, size);
    if (other)
        return mf_err_set(err, MF_EFORMAT, "%s %s", name, other);
    if (!rc) {
        const struct parsing r = {f, f->header + f->header_size, size - 8 - f->header_size, err};
        rc = header(&r);
    }
    if (rc == MF_EFORMAT)
        mf_err_at(err, "%s is not a valid safetensors file", name);
    if (rc)
        mf_safetensors_close(f);
    return rc;
}

int mf_safetensors_open(struct mf_safetensors *f, const char *path, struct mf_err *err)
{
    void *map;
    size_t size;
    *f = (struct mf_safetensors){0};
    int rc = mf_map_file(path, "a safetensors file", &map, &size, err);
    if (rc)
        return rc;
    if ((rc = mf_safetensors_parse(f, map, size, path, err))) {
        munmap(map, size);
        return rc;
    }
    f->map = map;
    f->size = size;
    return 0;
}

void mf_safetensors_close(struct mf_safetensors *f)
{
    if (f->map)
        munmap(f->map, f->size);
    free(f->tensors);
    free(f->meta);
    json_decref(f->json);
    *f = (struct mf_safetensors){0};
}

const struct mf_array *mf_safetensors_find(const struct mf_safetensors *f, const char *name)
{
    for (int low = 0, high = f->n; low < high;) {
        int i = (low + high) / 2, order = strcmp(name, f->tensors[i].name);
        if (order == 0)
            return &f->tensors[i];
        *(order < 0 ? &high : &low) = order < 0 ? i : i + 1;
    }
    return NULL;
}

const char *mf_safetensors_meta(const struct mf_safetensors *f, const char *key)
{
    for (int i = 0; i < f->n_meta; i++)
        if (!strcmp(f->meta[i].key, key))
            return f->meta[i].value;
    return NULL;
}
