#include "import/zip.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#include "base/file.h"
#include "base/mem.h"

enum { INFLATES = 1032 }; /* deflate's best */

#define NOT_WHOLE "%.180s is not a whole zip file"

/* What the file is if not a zip file; NULL: unknown. */
static const char *other_kind(zip_source_t *file)
{
    char p[32];
    static const struct {
        const char *begins, *means;
    } known[] = {
        {"version https://git-lfs", "is a Git LFS pointer, not the file itself; `git lfs pull` fetches it"},
        {"\211HDF", "is an HDF5 file, not a PyTorch or NumPy file"},
        {"\200", "is a bare pickle: before version 1.6 torch.save wrote such files. In Python, "
                 "torch.save(torch.load(FILE), NEW) writes one that is read here"},
        {"\x1f\x8b", "is compressed with gzip: gunzip it first"},
    };
    if (zip_source_open(file))
        return NULL;
    const zip_int64_t got = zip_source_read(file, p, sizeof p);
    const size_t n = got < 0 ? 0 : (size_t)got;
    zip_source_close(file);
    if (n > 8 && p[8] == '{')
        return "is a safetensors file, not a PyTorch or NumPy file";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (n >= strlen(known[i].begins) && !memcmp(p, known[i].begins, strlen(known[i].begins)))
            return known[i].means;
    return NULL;
}

static int take_entry(const struct mf_zip *z, struct mf_zip_entry *e, uint64_t index, struct mf_err *err)
{
    zip_stat_t s;
    if (zip_stat_index(z->file, index, 0, &s))
        return mf_err_set(err, MF_EFORMAT, "entry %ju: %s", (uintmax_t)index, zip_strerror(z->file));
    *e = (struct mf_zip_entry){s.name, index, s.comp_size, s.size, s.comp_method == ZIP_CM_DEFLATE};
    if (s.encryption_method != ZIP_EM_NONE)
        return mf_err_set(err, MF_EFORMAT, "%.60s is encrypted", s.name);
    if (s.comp_method != ZIP_CM_STORE && !e->deflated)
        return mf_err_set(err, MF_EFORMAT, "%.60s is compressed by method %u; stored and deflated entries are read",
                          s.name, s.comp_method);
    if (e->deflated ? e->size / INFLATES > e->packed : e->size != e->packed)
        return mf_err_set(err, MF_EFORMAT, "%.60s claims %zu bytes and has %zu", s.name, e->size, e->packed);
    return 0;
}

static int list_entries(struct mf_zip *z, size_t room, struct mf_err *err)
{
    const size_t n = (size_t)zip_get_num_entries(z->file, 0);
    int rc = mf_alloc((void **)&z->entry, n * sizeof *z->entry, "the list of a zip file's entries", err);
    for (; !rc && (size_t)z->n < n; z->n++) {
        struct mf_zip_entry *e = &z->entry[z->n];
        rc = take_entry(z, e, (uint64_t)z->n, err);
        if (!rc && e->packed > room)
            rc =
                mf_err_set(err, MF_EFORMAT, "its entries are longer than the file: they overlap, or end outside of it");
        room -= e->packed;
    }
    return rc;
}

/* libzip's words, but where they would mislead: its "No such file" is an entry without the sizes that zip64 keeps. */
static const char *why_not(zip_error_t *why)
{
    switch (zip_error_code_zip(why)) {
    case ZIP_ER_NOZIP:
        return "the directory at its end, or an entry listed there, is missing: it is half-written or cut";
    case ZIP_ER_EXISTS:
        return "two of its entries have one name";
    case ZIP_ER_INCONS:
    case ZIP_ER_NOENT:
        return "its directory contradicts its entries, or the file's length";
    default:
        return zip_error_strerror(why);
    }
}

static int open_zip(struct mf_zip *z, zip_source_t *file, struct mf_err *err)
{
    zip_stat_t s;
    zip_error_t why;
    zip_error_init(&why);
    errno = 0; /* libzip says of some allocations that fail that there is no zip file */
    if (zip_source_stat(file, &s) == 0 && (z->file = zip_open_from_source(file, ZIP_RDONLY | ZIP_CHECKCONS, &why))) {
        zip_source_keep(file);
        return list_entries(z, s.size, err);
    }
    int rc = errno == ENOMEM ? mf_err_set(err, MF_ENOMEM, "cannot allocate the directory of %s", z->path)
                             : mf_err_set(err, MF_EFORMAT, "%s", why_not(&why));
    zip_error_fini(&why);
    return rc;
}

static int open_source(struct mf_zip *z, zip_source_t *file, const char *path, struct mf_err *err)
{
    *z = (struct mf_zip){.path = mf_xstrdup(path)};
    const char *other = file ? other_kind(file) : "cannot be read: memory is out";
    int rc = other ? mf_err_set(err, file ? MF_EFORMAT : MF_ENOMEM, "%s %s", path, other) : open_zip(z, file, err);
    if (rc == MF_EFORMAT && !other)
        mf_err_at(err, NOT_WHOLE, path);
    zip_source_free(file);
    if (rc)
        mf_zip_close(z);
    return rc;
}

int mf_zip_parse(struct mf_zip *z, const void *bytes, size_t size, const char *path, struct mf_err *err)
{
    return open_source(z, zip_source_buffer_create(bytes, size, 0, NULL), path, err);
}

int mf_zip_open(struct mf_zip *z, const char *path, struct mf_err *err)
{
    *z = (struct mf_zip){0};
    FILE *f = mf_file_read(path, err);
    return f ? open_source(z, zip_source_filep_create(f, 0, -1, NULL), path, err) : err->code;
}

void mf_zip_close(struct mf_zip *z)
{
    if (z->file)
        zip_discard(z->file);
    free(z->entry);
    free(z->path);
    *z = (struct mf_zip){0};
}

const struct mf_zip_entry *mf_zip_find(const struct mf_zip *z, const char *name)
{
    const zip_int64_t i = zip_name_locate(z->file, name, 0);
    return i < 0 ? NULL : &z->entry[i];
}

/* The next n bytes. */
static bool take(zip_file_t *f, char *to, size_t n)
{
    zip_int64_t got = 1;
    for (; n && (got = zip_fread(f, to, n)) > 0; n -= (size_t)got)
        to += got;
    return got > 0;
}

static bool skip(zip_file_t *f, size_t n)
{
    char unwanted[1 << 14];
    bool there = true;
    for (size_t m; n && there; n -= m) {
        m = n < sizeof unwanted ? n : sizeof unwanted;
        there = take(f, unwanted, m);
    }
    return there;
}

static int read_part(const struct mf_zip *z, const struct mf_zip_entry *e, size_t from, size_t n, void *to,
                     struct mf_err *err)
{
    char beyond;
    int rc = 0;
    if (from > e->size || n > e->size - from)
        return mf_err_set(err, MF_EFORMAT, "%.60s has %zu bytes, and %zu are wanted from %zu on", e->name, e->size, n,
                          from);
    if (n == 0)
        return 0;
    zip_file_t *f = zip_fopen_index(z->file, e->index, e->deflated ? 0 : ZIP_FL_COMPRESSED);
    if (!f)
        return mf_err_set(err, MF_EFORMAT, "%.60s: %s", e->name, zip_strerror(z->file));
    const bool there = e->deflated ? skip(f, from) : zip_fseek(f, (zip_int64_t)from, SEEK_SET) == 0;
    if (!there || !take(f, to, n) || (e->deflated && from + n == e->size && zip_fread(f, &beyond, 1) != 0))
        rc = mf_err_set(err, MF_EFORMAT, "%.60s does not have the %zu bytes that it should: %s", e->name, e->size,
                        zip_error_code_zip(zip_file_get_error(f)) ? zip_file_strerror(f) : "its size is another");
    zip_fclose(f);
    return rc;
}

int mf_zip_read(const struct mf_zip *z, const struct mf_zip_entry *e, size_t from, size_t n, void *to,
                struct mf_err *err)
{
    int rc = read_part(z, e, from, n, to, err);
    return rc ? mf_err_at(err, NOT_WHOLE, z->path) : 0;
}
