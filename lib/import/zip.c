#include "import/zip.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "base/map.h"
#include "base/mem.h"

enum {
    END_SIZE = 22,     /* the record at the file's end, which a comment of up to 65535 bytes may follow */
    LOCATOR_SIZE = 20, /* zip64: before it, and says where the longer record lies */
    END64_SIZE = 56,
    ENTRY_SIZE = 46, /* in the central directory, before name, extra field and comment */
    LOCAL_SIZE = 30, /* before an entry's bytes, and again name and extra field */
    INFLATES = 1032, /* deflate's best */
};

static int wrong(const struct mf_zip *z, struct mf_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static int wrong(const struct mf_zip *z, struct mf_err *err, const char *fmt, ...)
{
    char text[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return mf_err_set(err, MF_EFORMAT, "%.180s is no whole zip file: %s", z->path, text);
}

/* The name as a sentence shows it. */
static const char *shown(const struct mf_zip_entry *e, char text[64])
{
    size_t n = e->name_size < 63 ? e->name_size : 63;
    for (size_t i = 0; i < n; i++)
        text[i] = e->name[i] >= ' ' && e->name[i] < 127 ? e->name[i] : '?';
    text[n] = 0;
    return text;
}

static uint64_t number(const uint8_t *p, int bytes)
{
    uint64_t v = 0;
    while (bytes--)
        v = v << 8 | p[bytes];
    return v;
}

static bool begins(const struct mf_zip *z, uint64_t at, size_t size, const char *with)
{
    return at <= z->size && size <= z->size - at && !memcmp(z->bytes + at, with, 4);
}

/* ---- where the central directory is ---- */

struct directory {
    uint64_t at, size, n;
};

static int find_directory(const struct mf_zip *z, struct directory *d, struct mf_err *err)
{
    uint64_t last = z->size >= END_SIZE ? z->size - END_SIZE : 0, at = last;
    while (!begins(z, at, END_SIZE, "PK\5\6")) {
        if (at == 0 || last - at >= 65535)
            return wrong(z, err, "its directory, which stands at the end, is missing: it is half-written or cut");
        at--;
    }
    const uint8_t *p = z->bytes + at;
    *d = (struct directory){.n = number(p + 10, 2), .size = number(p + 12, 4), .at = number(p + 16, 4)};
    if (at >= LOCATOR_SIZE && begins(z, at - LOCATOR_SIZE, LOCATOR_SIZE, "PK\6\7")) {
        uint64_t end64 = number(p - LOCATOR_SIZE + 8, 8);
        if (!begins(z, end64, END64_SIZE, "PK\6\6"))
            return wrong(z, err, "its zip64 record is not at byte %ju, where it should be", (uintmax_t)end64);
        p = z->bytes + end64;
        *d = (struct directory){.n = number(p + 32, 8), .size = number(p + 40, 8), .at = number(p + 48, 8)};
    }
    if (d->at > z->size || d->size > z->size - d->at || d->n > d->size / ENTRY_SIZE)
        return wrong(z, err, "its directory of %ju entries does not lie within its %zu bytes", (uintmax_t)d->n,
                     z->size);
    return 0;
}

/* ---- entries ---- */

/* Sizes and place, from the zip64 extra field where the directory's 32 bits are full. */
static void widen(const uint8_t *extra, size_t left, uint64_t *size, uint64_t *packed, uint64_t *local)
{
    uint64_t *const wide[] = {size, packed, local};
    while (left >= 4) {
        size_t n = (size_t)number(extra + 2, 2);
        n = n < left - 4 ? n : left - 4;
        const uint8_t *p = extra + 4;
        for (size_t i = 0, at = 0; number(extra, 2) == 1 && i < 3; i++)
            if (*wide[i] == UINT32_MAX && at + 8 <= n) {
                *wide[i] = number(p + at, 8);
                at += 8;
            }
        extra += 4 + n;
        left -= 4 + n;
    }
}

/* The entry at *at of the directory, which moves on. */
static int take_entry(const struct mf_zip *z, const struct directory *d, uint64_t *at, struct mf_zip_entry *e,
                      struct mf_err *err)
{
    const uint8_t *p = z->bytes + *at;
    uint64_t end = d->at + d->size;
    if (end - *at < ENTRY_SIZE || memcmp(p, "PK\1\2", 4))
        return wrong(z, err, "byte %ju of it begins no entry of its directory", (uintmax_t)*at);
    size_t name = (size_t)number(p + 28, 2), extra = (size_t)number(p + 30, 2), comment = (size_t)number(p + 32, 2);
    unsigned flags = (unsigned)number(p + 8, 2), method = (unsigned)number(p + 10, 2);
    uint64_t packed = number(p + 20, 4), size = number(p + 24, 4), local = number(p + 42, 4);
    if (end - *at - ENTRY_SIZE < name + extra + comment)
        return wrong(z, err, "an entry of its directory ends outside of it");
    *e = (struct mf_zip_entry){.name = (const char *)p + ENTRY_SIZE, .name_size = name, .deflated = method == 8};
    widen(p + ENTRY_SIZE + name, extra, &size, &packed, &local);
    *at += ENTRY_SIZE + name + extra + comment;

    char text[64];
    shown(e, text);
    if (flags & 1)
        return wrong(z, err, "%s is encrypted", text);
    if (method != 0 && method != 8)
        return wrong(z, err, "%s is compressed by method %u; stored and deflated entries are read", text, method);
    if (!begins(z, local, LOCAL_SIZE, "PK\3\4"))
        return wrong(z, err, "%s is not at byte %ju, where the directory says", text, (uintmax_t)local);
    local += LOCAL_SIZE + number(z->bytes + local + 26, 2) + number(z->bytes + local + 28, 2);
    if (local > z->size || packed > z->size - local)
        return wrong(z, err, "%s ends beyond the file's %zu bytes", text, z->size);
    if (e->deflated ? size / INFLATES > packed : size != packed)
        return wrong(z, err, "%s claims %ju bytes and has %ju", text, (uintmax_t)size, (uintmax_t)packed);
    e->data = z->bytes + local;
    e->packed = packed;
    e->size = size;
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct mf_zip_entry *x = a, *y = b;
    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    return (x->packed > y->packed) - (x->packed < y->packed);
}

static int order(const char *a, size_t n, const char *b, size_t m)
{
    int c = memcmp(a, b, n < m ? n : m);
    return c ? c : (n > m) - (n < m);
}

static int by_name(const void *a, const void *b)
{
    const struct mf_zip_entry *x = a, *y = b;
    return order(x->name, x->name_size, y->name, y->name_size);
}

static int sort_entries(struct mf_zip *z, struct mf_err *err)
{
    struct mf_zip_entry *e = z->entry;
    char text[64];
    qsort(e, (size_t)z->n, sizeof *e, by_place);
    for (int i = 1; i < z->n; i++)
        if (e[i - 1].data + e[i - 1].packed > e[i].data)
            return wrong(z, err, "%s overlaps another entry", shown(&e[i], text));
    qsort(e, (size_t)z->n, sizeof *e, by_name);
    for (int i = 1; i < z->n; i++)
        if (by_name(&e[i - 1], &e[i]) == 0)
            return wrong(z, err, "%s is in it twice", shown(&e[i], text));
    return 0;
}

static const char *what_else(const uint8_t *p, size_t n)
{
    static const struct {
        const char *begins, *means;
    } known[] = {
        {"version https://git-lfs", "is a Git LFS pointer, not the file itself; `git lfs pull` fetches it"},
        {"\211HDF", "is an HDF5 file, no PyTorch or NumPy file"},
        {"\200", "is a bare pickle: before version 1.6 torch.save wrote such files. In Python, "
                 "torch.save(torch.load(FILE), NEW) writes one that is read here"},
        {"\x1f\x8b", "is compressed with gzip: gunzip it first"},
    };
    if (n > 8 && p[8] == '{')
        return "is a safetensors file, no PyTorch or NumPy file";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (n >= strlen(known[i].begins) && !memcmp(p, known[i].begins, strlen(known[i].begins)))
            return known[i].means;
    return NULL;
}

int mf_zip_parse(struct mf_zip *z, const void *bytes, size_t size, const char *path, struct mf_err *err)
{
    struct directory d = {0};
    *z = (struct mf_zip){.path = mf_xstrdup(path), .bytes = bytes, .size = size, .fd = -1};
    const char *other = what_else(bytes, size);
    int rc = other ? mf_err_set(err, MF_EFORMAT, "%s %s", path, other) : find_directory(z, &d, err);
    if (!rc && d.n && !(z->entry = calloc(d.n, sizeof *z->entry)))
        rc = mf_err_set(err, MF_ENOMEM, "cannot allocate the list of the %ju entries of %s", (uintmax_t)d.n, path);
    for (uint64_t at = rc ? 0 : d.at; !rc && (uint64_t)z->n < d.n; z->n += rc == 0)
        rc = take_entry(z, &d, &at, &z->entry[z->n], err);
    if (!rc && z->n)
        rc = sort_entries(z, err);
    if (rc)
        mf_zip_close(z);
    return rc;
}

int mf_zip_open(struct mf_zip *z, const char *path, struct mf_err *err)
{
    void *map;
    size_t size;
    int fd, rc;
    *z = (struct mf_zip){0};
    if ((rc = mf_map_file(path, "a zip file", &map, &size, &fd, err)))
        return rc;
    if ((rc = mf_zip_parse(z, map, size, path, err))) {
        munmap(map, size);
        close(fd);
        return rc;
    }
    z->fd = fd;
    return 0;
}

void mf_zip_close(struct mf_zip *z)
{
    if (z->path && z->fd >= 0) { /* a zeroed one has no path */
        munmap((void *)(uintptr_t)z->bytes, z->size);
        close(z->fd);
    }
    free(z->entry);
    free(z->path);
    *z = (struct mf_zip){0};
}

const struct mf_zip_entry *mf_zip_find(const struct mf_zip *z, const char *name)
{
    for (int low = 0, high = z->n; low < high;) {
        int i = (low + high) / 2, c = order(name, strlen(name), z->entry[i].name, z->entry[i].name_size);
        if (c == 0)
            return &z->entry[i];
        *(c < 0 ? &high : &low) = c < 0 ? i : i + 1;
    }
    return NULL;
}

/* n bytes at `out`, after the first `from`, which nobody wants. Where they are the entry's last, it ends there. */
static bool inflate_part(const struct mf_zip_entry *e, size_t from, size_t n, uint8_t *out)
{
    enum { PIECE = 1 << 30 }; /* zlib counts in 32 bits */
    uint8_t skipped[1 << 14];
    z_stream s = {0};
    const bool to_end = from + n == e->size;
    size_t in_left = e->packed, left = from + n;
    int step = inflateInit2(&s, -MAX_WBITS);
    s.next_in = (Bytef *)(uintptr_t)e->data;
    while (step == Z_OK && (left || to_end)) {
        const size_t skip = left > n ? left - n : left ? 0 : 1, most = skip ? sizeof skipped : PIECE;
        const size_t wanted = skip ? skip : left;
        const uInt in = (uInt)(in_left < PIECE ? in_left : PIECE), room = (uInt)(wanted < most ? wanted : most);
        s.next_out = skip ? skipped : out + (n - left);
        s.avail_in = in;
        s.avail_out = room;
        step = inflate(&s, Z_NO_FLUSH); /* Z_BUF_ERROR where it comes no further */
        in_left -= in - s.avail_in;
        if (!left && s.avail_out == 0)
            break; /* a byte more than there should be */
        left -= left ? room - s.avail_out : 0;
    }
    inflateEnd(&s);
    return left == 0 && (!to_end || step == Z_STREAM_END);
}

int mf_zip_read(const struct mf_zip *z, const struct mf_zip_entry *e, size_t from, size_t n, const uint8_t **bytes,
                void **own, struct mf_err *err)
{
    char text[64];
    *own = NULL;
    *bytes = e->data + (e->deflated ? 0 : from);
    if (from > e->size || n > e->size - from)
        return wrong(z, err, "%s has %zu bytes, and %zu are wanted from %zu on", shown(e, text), e->size, n, from);
    if (!e->deflated)
        return 0;
    *own = malloc(n + 1);
    *bytes = *own;
    if (!*own)
        return mf_err_set(err, MF_ENOMEM, "cannot allocate %zu bytes of %s of %s", n, shown(e, text), z->path);
    if (inflate_part(e, from, n, *own))
        return 0;
    free(*own);
    *own = NULL;
    return wrong(z, err, "%s does not inflate to its %zu bytes", shown(e, text), e->size);
}
