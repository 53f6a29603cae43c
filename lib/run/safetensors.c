#include "run/safetensors.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/map.h"
#include "run/safetensors_priv.h"

static const struct {
    const char *word;
    enum mf_dtype dtype;
} dtypes[] = {{"F32", MF_F32}, {"F64", MF_F64}, {"F16", MF_F16}, {"U8", MF_U8},   {"I8", MF_I8},   {"BOOL", MF_B1},
              {"I16", MF_I16}, {"U16", MF_U16}, {"I32", MF_I32}, {"U32", MF_U32}, {"I64", MF_I64}, {"U64", MF_U64}};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

const char *mf_safetensors_word(enum mf_dtype dtype)
{
    for (int i = 0; i < DTYPES; i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].word;
    return "?";
}

static int dtype_of(struct mf_json *j, const char *tensor, const char *word, enum mf_dtype *dtype)
{
    for (int i = 0; i < DTYPES; i++)
        if (!strcmp(dtypes[i].word, word)) {
            *dtype = dtypes[i].dtype;
            return 0;
        }
    return mf_json_wrong(j, "tensor %.100s has the dtype %.32s, which is not read here", tensor, word);
}

/* {"dtype": .., "shape": .., "data_offsets": ..}: any order, each once. at: [begin, end]. */
static int fields(struct mf_json *j, struct mf_array *a, uint64_t dim[MF_RANK_MAX], uint64_t at[2])
{
    const char *key, *word;
    int n_at = 0, rc = mf_json_expect(j, '{', a->name);
    unsigned seen = 0;
    if (rc)
        return rc;
    do {
        if ((rc = mf_json_string(j, &key, a->name)) || (rc = mf_json_expect(j, ':', a->name)))
            return rc;
        unsigned field = !strcmp(key, "dtype") ? 1 : !strcmp(key, "shape") ? 2 : !strcmp(key, "data_offsets") ? 4 : 0;
        if (!field || seen & field)
            return mf_json_wrong(j, "tensor %s has the field %.40s %s", a->name, key,
                                 field ? "twice" : "that means nothing");
        seen |= field;
        if (field == 1 && !(rc = mf_json_string(j, &word, a->name)))
            rc = dtype_of(j, a->name, word, &a->dtype);
        else if (field == 2)
            rc = mf_json_numbers(j, a->name, "shape", dim, MF_RANK_MAX, &a->rank);
        else if (field == 4)
            rc = mf_json_numbers(j, a->name, "data_offsets", at, 2, &n_at);
        if (rc)
            return rc;
    } while (mf_json_take(j, ','));
    if (seen != 7 || n_at != 2)
        return mf_json_wrong(j, "tensor %s lacks its dtype, its shape or one of its two data_offsets", a->name);
    return mf_json_expect(j, '}', a->name);
}

/* data becomes base + begin; base and the room after it are the file's tensors. */
static int tensor(struct mf_json *j, const char *name, struct mf_array *a, const char *base, size_t room)
{
    uint64_t dim[MF_RANK_MAX], at[2];
    *a = (struct mf_array){.count = 1};
    if (strlen(name) >= sizeof a->name)
        return mf_json_wrong(j, "the name %.60s.. is longer than %d bytes", name, MF_NAME_MAX - 1);
    strcpy(a->name, name);
    int rc = fields(j, a, dim, at);
    if (rc)
        return rc;
    bool huge = false;
    for (int i = 0; i < a->rank; i++) {
        a->dim[i] = dim[i];
        huge |= __builtin_mul_overflow(a->count, dim[i], &a->count);
    }
    if (huge || __builtin_mul_overflow(a->count, mf_dtype_size(a->dtype), &a->bytes))
        return mf_json_wrong(j, "the size of tensor %s does not fit 64 bits", a->name);
    if (at[0] > at[1] || at[1] - at[0] != a->bytes)
        return mf_json_wrong(j, "data_offsets [%ju, %ju] of tensor %s do not span the %zu bytes of its shape",
                             (uintmax_t)at[0], (uintmax_t)at[1], a->name, a->bytes);
    if (at[1] > room)
        return mf_json_wrong(j, "tensor %s ends at byte %ju of the %zu that are there: it is half-written or cut",
                             a->name, (uintmax_t)at[1], room);
    a->data = (void *)(uintptr_t)(base + at[0]);
    return 0;
}

static int grow(struct mf_json *j, void **p, int n, size_t size)
{
    if (n & (n - 1)) /* a power of two is full */
        return 0;
    void *q = realloc(*p, (size_t)(n ? n * 2 : 1) * size);
    if (!q)
        return mf_err_set(j->err, MF_ENOMEM, "cannot allocate the list of %d entries of %s", n, j->path);
    *p = q;
    return 0;
}

static int metadata(struct mf_json *j, struct mf_safetensors *f)
{
    int rc = mf_json_expect(j, '{', "__metadata__");
    if (rc || mf_json_take(j, '}'))
        return rc;
    do {
        struct mf_meta m;
        if ((rc = grow(j, (void **)&f->meta, f->n_meta, sizeof *f->meta)) ||
            (rc = mf_json_string(j, &m.key, "__metadata__")) || (rc = mf_json_expect(j, ':', "__metadata__")) ||
            (rc = mf_json_string(j, &m.value, "__metadata__")))
            return rc;
        f->meta[f->n_meta++] = m;
    } while (mf_json_take(j, ','));
    return mf_json_expect(j, '}', "__metadata__");
}

static int by_place(const void *a, const void *b)
{
    const struct mf_array *x = a, *y = b;
    if (x->data != y->data)
        return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* The parts that no single entry shows: holes, overlaps, a rest, and names that come twice. */
static int whole(struct mf_json *j, struct mf_safetensors *f, const char *base, size_t room)
{
    size_t used = 0;
    if (f->n)
        qsort(f->tensors, (size_t)f->n, sizeof *f->tensors, by_place);
    for (int i = 0; i < f->n; i++) {
        const struct mf_array *a = &f->tensors[i];
        size_t begin = (size_t)((const char *)a->data - base);
        if (begin != used)
            return mf_json_wrong(j, "%s before tensor %s at byte %zu of the tensors",
                                 begin > used ? "a hole" : "an overlap", a->name, begin);
        used += a->bytes;
    }
    if (used != room)
        return mf_json_wrong(j, "%zu bytes follow its last tensor", room - used);
    mf_safetensors_sort(f->tensors, f->n, f->meta, f->n_meta);
    for (int i = 1; i < f->n; i++)
        if (!strcmp(f->tensors[i - 1].name, f->tensors[i].name))
            return mf_json_wrong(j, "it names the tensor %s twice", f->tensors[i].name);
    for (int i = 1; i < f->n_meta; i++)
        if (!strcmp(f->meta[i - 1].key, f->meta[i].key))
            return mf_json_wrong(j, "its metadata names %.100s twice", f->meta[i].key);
    return 0;
}

static int header(struct mf_json *j, struct mf_safetensors *f, const char *base, size_t room)
{
    bool has_meta = false;
    const char *name;
    j->at++; /* the '{' that the caller saw */
    int rc = 0;
    if (!mf_json_take(j, '}')) {
        do {
            if ((rc = mf_json_string(j, &name, "the map of tensors")) ||
                (rc = mf_json_expect(j, ':', "the map of tensors")))
                return rc;
            if (!strcmp(name, "__metadata__")) {
                rc = has_meta ? mf_json_wrong(j, "it has __metadata__ twice") : metadata(j, f);
                has_meta = true;
            } else if (!(rc = grow(j, (void **)&f->tensors, f->n, sizeof *f->tensors))) {
                rc = tensor(j, name, &f->tensors[f->n], base, room);
                f->n += rc == 0;
            }
            if (rc)
                return rc;
        } while (mf_json_take(j, ','));
        if ((rc = mf_json_expect(j, '}', "the map of tensors")))
            return rc;
    }
    if (mf_json_peek(j))
        return mf_json_wrong(j, "something follows the JSON of its header");
    return whole(j, f, base, room);
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

int mf_safetensors_parse(struct mf_safetensors *f, const void *bytes, size_t size, const char *name, struct mf_err *err)
{
    const char *p = bytes;
    uint64_t length = 0;
    struct mf_json j = {.path = name, .err = err};
    *f = (struct mf_safetensors){0};
    for (int i = 7; i >= 0 && size >= 8; i--)
        length = length << 8 | (unsigned char)p[i];
    bool plausible = length >= 2 && length <= MF_SAFETENSORS_HEADER_MAX && size > 8 && p[8] == '{';
    if (!plausible) {
        const char *other = what_else(p, size);
        if (other)
            return mf_err_set(err, MF_EFORMAT, "%s %s", name, other);
        if (size < 10)
            return mf_json_wrong(&j, "it has %zu bytes, too few for a header", size);
        if (p[8] != '{')
            return mf_json_wrong(&j, "its header does not begin with '{'");
        return mf_json_wrong(&j, "its header would be %ju bytes long (2 to %d are allowed)", (uintmax_t)length,
                             MF_SAFETENSORS_HEADER_MAX);
    }
    if (length > size - 8)
        return mf_json_wrong(&j, "its header of %ju bytes ends beyond the file's %zu bytes: it is half-written or cut",
                             (uintmax_t)length, size);
    f->strings = malloc(length + 1);
    if (!f->strings)
        return mf_err_set(err, MF_ENOMEM, "cannot allocate the %ju bytes of the header of %s", (uintmax_t)length, name);
    f->header = j.at = p + 8;
    f->header_size = length;
    j.end = p + 8 + length;
    j.string = f->strings;
    int rc = header(&j, f, p + 8 + length, size - 8 - length);
    if (rc)
        mf_safetensors_close(f);
    return rc;
}

int mf_safetensors_open(struct mf_safetensors *f, const char *path, struct mf_err *err)
{
    void *map;
    size_t size;
    *f = (struct mf_safetensors){0};
    int rc = mf_map_file(path, "a safetensors file", &map, &size, NULL, err);
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
    free(f->strings);
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
