/* A zip file of stored entries, each at a multiple of 64 bytes as PyTorch aligns them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#include "base/publish.h"
#include "import/torch_priv.h"

/* ---- the pickle: OrderedDict of _rebuild_tensor_v2 ---- */

static void put(FILE *to, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        putc((int)(v >> 8 * i & 255), to);
}

static void pickle_text(FILE *to, const char *s)
{
    putc('X', to);
    put(to, strlen(s), 4);
    fputs(s, to);
}

static void pickle_size(FILE *to, size_t v)
{
    fputs("\x8a\x08", to); /* LONG1 */
    put(to, v, 8);
}

static void pickle_sizes(FILE *to, const size_t *v, int n)
{
    putc('(', to);
    for (int i = 0; i < n; i++)
        pickle_size(to, v[i]);
    putc('t', to);
}

static void pickle_tensor(FILE *to, const struct mf_array *a, int i)
{
    size_t stride[MF_RANK_MAX], step = 1;
    char key[16];
    sprintf(key, "%d", i);
    for (int d = a->rank - 1; d >= 0; step *= a->dim[d--])
        stride[d] = step;
    pickle_text(to, a->name);
    fputs("ctorch._utils\n_rebuild_tensor_v2\n((", to);
    pickle_text(to, "storage");
    fprintf(to, "ctorch\n%s\n", mf_torch_dtype_of(a->dtype)->storage);
    pickle_text(to, key);
    pickle_text(to, "cpu");
    pickle_size(to, a->count);
    fputs("tQK", to);
    putc(0, to); /* offset */
    pickle_sizes(to, a->dim, a->rank);
    pickle_sizes(to, stride, a->rank);
    fputs("\x89"
          "ccollections\nOrderedDict\n)RtR",
          to); /* no gradient, no hooks */
}

static void pickle(FILE *to, const struct mf_array *tensors, int n)
{
    fputs("\x80\x02"
          "ccollections\nOrderedDict\n)R(",
          to);
    for (int i = 0; i < n; i++)
        pickle_tensor(to, &tensors[i], i);
    fputs("u.", to);
}

/* ---- the file ---- */

/* libzip aligns nothing, but writes entries in the order in which they are added, so that the place of each is known:
 * an extra field, PyTorch's own, fills the gap before it. */
static int add_entry(zip_t *to, const char *name, const void *data, size_t size, uint64_t *at)
{
    enum { ALIGN = 64, LOCAL = 30, WIDE = 20, EXTRA = 4, FIRST_OF_1980 = 0x21 };
    uint8_t fill[ALIGN];
    const uint64_t head = *at + LOCAL + strlen(name) + (size >= UINT32_MAX ? WIDE : 0) + EXTRA;
    const uint16_t gap = (uint16_t)(ALIGN - head % ALIGN);
    memset(fill, 'Z', gap);
    *at = head + gap + size;
    zip_source_t *from = zip_source_buffer(to, data, size, 0);
    const zip_int64_t i = from ? zip_file_add(to, name, from, 0) : -1;
    if (i < 0) {
        zip_source_free(from);
        return -1;
    }
    const zip_uint64_t entry = (zip_uint64_t)i;
    return zip_set_file_compression(to, entry, ZIP_CM_STORE, 0) || /* one time: the same content is the same bytes */
           zip_file_set_dostime(to, entry, 0, FIRST_OF_1980, 0) ||
           zip_file_extra_field_set(to, entry, 'F' | 'B' << 8, ZIP_EXTRA_FIELD_NEW, fill, gap, ZIP_FL_LOCAL);
}

static int add_all(zip_t *to, const char *tree, size_t size, const struct mf_array *tensors, int n)
{
    uint64_t at = 0;
    int rc = add_entry(to, "archive/data.pkl", tree, size, &at) || add_entry(to, "archive/byteorder", "little", 6, &at);
    for (int i = 0; i < n && !rc; i++) {
        char name[48];
        sprintf(name, "archive/data/%d", i);
        rc = add_entry(to, name, tensors[i].data, tensors[i].bytes, &at);
    }
    return rc || add_entry(to, "archive/version", "3\n", 2, &at);
}

static int write_zip(const char *part, const char *tree, size_t size, const struct mf_array *tensors, int n,
                     struct mf_err *err)
{
    int code, rc = 0;
    zip_t *to = zip_open(part, ZIP_CREATE | ZIP_TRUNCATE, &code);
    if (!to) {
        zip_error_t why;
        zip_error_init_with_code(&why, code);
        rc = mf_err_set(err, MF_EIO, "cannot create %s: %s", part, zip_error_strerror(&why));
        zip_error_fini(&why);
    } else if (add_all(to, tree, size, tensors, n) || zip_close(to)) {
        rc = mf_err_set(err, MF_EIO, "cannot write %s: %s", part, zip_strerror(to));
        zip_discard(to);
    }
    return rc;
}

int mf_torch_write(const char *path, const struct mf_array *tensors, int n, struct mf_err *err)
{
    for (int i = 0; i < n; i++)
        if (!*mf_torch_dtype_of(tensors[i].dtype)->storage)
            return mf_err_set(err, MF_EUSAGE, "%s is %s, for which older versions of PyTorch have no type",
                              tensors[i].name, mf_dtype_name(tensors[i].dtype));
    char *part = mf_publish_part(path, err), *tree = NULL;
    if (!part)
        return err->code;
    size_t size;
    FILE *to = open_memstream(&tree, &size);
    if (to)
        pickle(to, tensors, n);
    int rc = to && fclose(to) == 0 ? write_zip(part, tree, size, tensors, n, err)
                                   : mf_err_errno(err, "cannot allocate the pickle of %s", part);
    if (!rc)
        rc = mf_publish(part, path, err);
    free(tree);
    free(part);
    return rc;
}
