#include "import/npz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* The header {'descr': '<f4', 'fortran_order': False, 'shape': (11,), } and where the numbers begin. */
static int numbers_of(const uint8_t *p, size_t size, const char **descr, size_t *begin)
{
    if (size < 12 || memcmp(p, "\x93NUMPY", 6) || p[6] < 1 || p[6] > 3)
        return -1;
    size_t head = p[6] == 1 ? 10 : 12;
    size_t length = p[8] | (size_t)p[9] << 8 | (p[6] == 1 ? 0 : (size_t)p[10] << 16 | (size_t)p[11] << 24);
    static const char key[] = "'descr': '";
    if (length > size - head)
        return -1;
    const uint8_t *at = memmem(p + head, length, key, sizeof key - 1);
    if (!at || (size_t)(p + head + length - at) < sizeof key + 4)
        return -1;
    *descr = (const char *)at + sizeof key - 1;
    *begin = head + length;
    return memmem(p + head, length, "'fortran_order': False", 22) ? 0 : -1;
}

enum { HEAD_MOST = 1 << 16 }; /* bytes of a header */

/* Bytes of one number, and the byte at which the numbers begin. */
static int read_head(const struct mf_zip *npz, const struct mf_zip_entry *e, const char *name, size_t *wide,
                     size_t *begin, struct mf_err *err)
{
    uint8_t bytes[HEAD_MOST];
    const char *descr;
    const size_t most = e->size < HEAD_MOST ? e->size : HEAD_MOST;
    int rc = mf_zip_read(npz, e, 0, most, bytes, err);
    if (rc)
        return rc;
    const bool good = numbers_of(bytes, most, &descr, begin) == 0;
    *wide = good && !memcmp(descr, "<f4'", 4) ? 4 : good && !memcmp(descr, "<f8'", 4) ? 8 : 0;
    return *wide ? 0
                 : mf_err_set(err, MF_EFORMAT, "'%s' of %s is not an array of float32 or float64 in C order", name,
                              npz->path);
}

int mf_npz_read(const struct mf_zip *npz, const char *name, double *v, size_t n, const char *whose, struct mf_err *err)
{
    char file[128];
    uint8_t *bytes;
    size_t wide, begin = 0;
    snprintf(file, sizeof file, "%s.npy", name);
    const struct mf_zip_entry *e = mf_zip_find(npz, file);
    if (!e)
        return mf_err_set(err, MF_EFORMAT, "%s holds no array '%s'", npz->path, name);
    int rc = read_head(npz, e, name, &wide, &begin, err);
    if (rc)
        return rc;
    if ((e->size - begin) / wide != n)
        return mf_err_set(err, MF_EFORMAT, "%s of %s has %zu numbers, and %s has %zu", name, npz->path,
                          (e->size - begin) / wide, whose, n);
    if ((rc = mf_alloc((void **)&bytes, n * wide, "an array of a .npz file", err)))
        return rc;
    rc = mf_zip_read(npz, e, begin, n * wide, bytes, err);
    for (size_t i = 0; i < n && !rc; i++) {
        float f;
        memcpy(wide == 8 ? (void *)&v[i] : (void *)&f, bytes + wide * i, wide);
        v[i] = wide == 8 ? v[i] : (double)f;
    }
    free(bytes);
    return rc;
}
