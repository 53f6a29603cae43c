#include "data/npz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int mf_npz_read(const struct mf_zip *npz, const char *name, float **v, size_t *n, struct mf_err *err)
{
    char file[128];
    const uint8_t *bytes;
    const char *descr;
    void *own;
    size_t begin = 0;
    snprintf(file, sizeof file, "%s.npy", name);
    const struct mf_zip_entry *e = mf_zip_find(npz, file);
    if (!e)
        return mf_err_set(err, MF_EFORMAT, "%s holds no array '%s'", npz->path, name);
    int rc = mf_zip_read(npz, e, &bytes, &own, err);
    if (rc)
        return rc;
    bool good = numbers_of(bytes, e->size, &descr, &begin) == 0;
    size_t wide = good && !memcmp(descr, "<f4'", 4) ? 4 : good && !memcmp(descr, "<f8'", 4) ? 8 : 0;
    *n = wide ? (e->size - begin) / wide : 0;
    *v = wide ? malloc(*n * sizeof **v + 1) : NULL;
    if (!wide)
        rc = mf_err_set(err, MF_EFORMAT, "'%s' of %s is no array of float32 or float64", name, npz->path);
    else if (!*v)
        rc = mf_err_set(err, MF_ENOMEM, "cannot allocate '%s' of %s", name, npz->path);
    for (size_t i = 0; i < *n && !rc; i++) {
        double d;
        if (wide == 8) {
            memcpy(&d, bytes + begin + 8 * i, 8);
            (*v)[i] = (float)d;
        } else {
            memcpy(*v + i, bytes + begin + 4 * i, 4);
        }
    }
    free(own);
    return rc;
}
