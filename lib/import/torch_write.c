/* A zip file of stored entries, each at a multiple of 64 bytes as PyTorch aligns them, and with zip64 records
 * throughout, so that there is one form for every size.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/mem.h"
#include "base/publish.h"
#include "import/torch_priv.h"

enum { ALIGN = 64, FULL16 = 0xffff };

struct writer {
    FILE *to, *directory; /* the latter in memory */
    uint64_t at, n;
};

static void put(FILE *to, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        putc((int)(v >> 8 * i & 255), to);
}

static void put_text(FILE *to, const char *s)
{
    fputs(s, to);
}

/* What local header and directory share, from the version that is needed to the length of the name. */
static void put_common(FILE *to, uint32_t crc, size_t name)
{
    put(to, 45, 2); /* zip64 */
    put(to, 0, 2);  /* flags */
    put(to, 0, 2);  /* stored */
    put(to, 0, 4);  /* no time: the same content is the same bytes */
    put(to, crc, 4);
    put(to, UINT32_MAX, 4);
    put(to, UINT32_MAX, 4);
    put(to, name, 2);
}

static uint32_t checksum(const void *data, size_t size)
{
    const Bytef *p = data;
    uLong crc = crc32(0, NULL, 0);
    for (; size; p += size < 1 << 30 ? size : 1 << 30, size -= size < 1 << 30 ? size : 1 << 30)
        crc = crc32(crc, p, (uInt)(size < 1 << 30 ? size : 1 << 30));
    return (uint32_t)crc;
}

static void put_entry(struct writer *w, const char *name, const void *data, size_t size)
{
    uint32_t crc = checksum(data, size);
    size_t n = strlen(name), head = 30 + n + 20, pad = ALIGN - (w->at + head + 4) % ALIGN;
    put_text(w->to, "PK\3\4");
    put_common(w->to, crc, n);
    put(w->to, 20 + 4 + pad, 2);
    put_text(w->to, name);
    put(w->to, 1, 2); /* zip64: both sizes */
    put(w->to, 16, 2);
    put(w->to, size, 8);
    put(w->to, size, 8);
    put(w->to, 'F' | 'B' << 8, 2); /* PyTorch's padding */
    put(w->to, pad, 2);
    for (size_t i = 0; i < pad; i++)
        putc('Z', w->to);
    fwrite(data, 1, size, w->to);

    put_text(w->directory, "PK\1\2");
    put(w->directory, 45, 2);
    put_common(w->directory, crc, n);
    put(w->directory, 28, 2);
    put(w->directory, 0, 2 + 2); /* comment, disk */
    put(w->directory, 0, 2 + 4); /* attributes */
    put(w->directory, UINT32_MAX, 4);
    put_text(w->directory, name);
    put(w->directory, 1, 2);
    put(w->directory, 24, 2);
    put(w->directory, size, 8);
    put(w->directory, size, 8);
    put(w->directory, w->at, 8);
    w->at += head + 4 + pad + size;
    w->n++;
}

static void put_end(struct writer *w, const char *directory, size_t size)
{
    uint64_t end64 = w->at + size;
    fwrite(directory, 1, size, w->to);
    put_text(w->to, "PK\6\6");
    put(w->to, 44, 8);
    put(w->to, 45, 2);
    put(w->to, 45, 2);
    put(w->to, 0, 8); /* disks */
    put(w->to, w->n, 8);
    put(w->to, w->n, 8);
    put(w->to, size, 8);
    put(w->to, w->at, 8);
    put_text(w->to, "PK\6\7");
    put(w->to, 0, 4);
    put(w->to, end64, 8);
    put(w->to, 1, 4);
    put_text(w->to, "PK\5\6");
    put(w->to, 0, 4);
    put(w->to, FULL16, 2);
    put(w->to, FULL16, 2);
    put(w->to, UINT32_MAX, 4);
    put(w->to, UINT32_MAX, 4);
    put(w->to, 0, 2);
}

/* ---- the pickle: OrderedDict of _rebuild_tensor_v2 ---- */

static void pickle_text(FILE *to, const char *s)
{
    putc('X', to);
    put(to, strlen(s), 4);
    fputs(s, to);
}

static void pickle_size(FILE *to, size_t v)
{
    put_text(to, "\x8a\x08"); /* LONG1 */
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
    put_text(to, "ctorch._utils\n_rebuild_tensor_v2\n((");
    pickle_text(to, "storage");
    fprintf(to, "ctorch\n%s\n", mf_torch_dtype_of(a->dtype)->storage);
    pickle_text(to, key);
    pickle_text(to, "cpu");
    pickle_size(to, a->count);
    put_text(to, "tQK");
    putc(0, to); /* offset */
    pickle_sizes(to, a->dim, a->rank);
    pickle_sizes(to, stride, a->rank);
    put_text(to, "\x89"
                 "ccollections\nOrderedDict\n)RtR"); /* no gradient, no hooks */
}

static void pickle(FILE *to, const struct mf_array *tensors, int n)
{
    put_text(to, "\x80\x02"
                 "ccollections\nOrderedDict\n)R(");
    for (int i = 0; i < n; i++)
        pickle_tensor(to, &tensors[i], i);
    put_text(to, "u.");
}

static int write_all(struct writer *w, const struct mf_array *tensors, int n, const char *part, struct mf_err *err)
{
    char *text[2] = {NULL, NULL}, name[48];
    size_t size[2];
    FILE *tree = open_memstream(&text[0], &size[0]);
    w->directory = open_memstream(&text[1], &size[1]);
    if (!tree || !w->directory)
        return mf_err_set(err, MF_ENOMEM, "cannot allocate the directory of %s", part);
    pickle(tree, tensors, n);
    bool good = fclose(tree) == 0;
    put_entry(w, "archive/data.pkl", text[0], good ? size[0] : 0);
    put_entry(w, "archive/byteorder", "little", 6);
    for (int i = 0; i < n; i++) {
        sprintf(name, "archive/data/%d", i);
        put_entry(w, name, tensors[i].data, tensors[i].bytes);
    }
    put_entry(w, "archive/version", "3\n", 2);
    good &= fclose(w->directory) == 0;
    if (good)
        put_end(w, text[1], size[1]);
    free(text[0]);
    free(text[1]);
    if (!good)
        return mf_err_set(err, MF_ENOMEM, "cannot allocate the directory of %s", part);
    return ferror(w->to) ? mf_err_errno(err, "cannot write %s", part) : 0;
}

int mf_torch_write(const char *path, const struct mf_array *tensors, int n, struct mf_err *err)
{
    for (int i = 0; i < n; i++)
        if (!mf_torch_dtype_of(tensors[i].dtype))
            return mf_err_set(err, MF_EUSAGE, "%s is %s, for which older versions of PyTorch have no type",
                              tensors[i].name, mf_dtype_name(tensors[i].dtype));
    char *part = mf_publish_part(path, err);
    if (!part)
        return err->code;
    struct writer w = {.to = fopen(part, "we")};
    int rc = w.to ? write_all(&w, tensors, n, part, err) : mf_err_errno(err, "cannot create %s", part);
    if (w.to && fclose(w.to) != 0 && !rc)
        rc = mf_err_errno(err, "cannot write %s", part);
    if (!rc)
        rc = mf_publish(part, path, err);
    else if (w.to)
        remove(part);
    free(part);
    return rc;
}
