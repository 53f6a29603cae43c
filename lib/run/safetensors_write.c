#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/publish.h"
#include "stream/json.h"
#include "run/safetensors_priv.h"

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct mf_array *)a)->name, ((const struct mf_array *)b)->name);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct mf_meta *)a)->key, ((const struct mf_meta *)b)->key);
}

void mf_safetensors_sort(struct mf_array *tensors, int n, struct mf_meta *meta, int n_meta)
{
    if (n)
        qsort(tensors, (size_t)n, sizeof *tensors, by_name);
    if (n_meta)
        qsort(meta, (size_t)n_meta, sizeof *meta, by_key);
}

static json_t *entry(const struct mf_array *a, size_t begin)
{
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", mf_safetensors_word(a->dtype), "shape",
                     mf_json_sizes(a->dim, a->rank), "data_offsets", (json_int_t)begin, (json_int_t)(begin + a->bytes));
}

/* The length and the JSON, padded so that the tensors begin at a multiple of 8. */
static int header(char **text, size_t *size, const struct mf_array *tensors, int n, const struct mf_meta *meta,
                  int n_meta, struct mf_err *err)
{
    json_t *all = json_object(), *texts = json_object();
    for (int i = 0; i < n_meta; i++)
        mf_json_set(texts, meta[i].key, mf_json_text(meta[i].value));
    if (n_meta)
        json_object_set(all, "__metadata__", texts);
    json_decref(texts);
    size_t at = 0;
    for (int i = 0; i < n; at += tensors[i++].bytes)
        mf_json_set(all, tensors[i].name, entry(&tensors[i], at));
    const size_t length = json_dumpb(all, NULL, 0, JSON_COMPACT);
    *size = 8 + (length + 7) / 8 * 8;
    const bool complete = json_object_size(all) == (size_t)n + (n_meta > 0) && length > 0;
    if (complete && (*text = malloc(*size))) {
        memset(*text, ' ', *size);
        json_dumpb(all, *text + 8, length, JSON_COMPACT);
        for (int i = 0; i < 8; i++)
            (*text)[i] = (char)((*size - 8) >> 8 * i);
    }
    json_decref(all);
    return *text ? 0
                 : mf_err_set(err, MF_ENOMEM, "cannot allocate the header of a safetensors file with %d tensors", n);
}

static int put(int fd, const void *data, size_t n)
{
    for (const char *p = data; n;) {
        ssize_t w = write(fd, p, n);
        if (w < 0 && errno != EINTR)
            return -1;
        p += w > 0 ? w : 0;
        n -= w > 0 ? (size_t)w : 0;
    }
    return 0;
}

enum { PIECE = 1 << 20 };

/* fd < 0: reads them alone. */
static int put_tensor(int fd, const struct mf_array *a, const struct mf_origin *from, char *piece, const char *part,
                      struct mf_err *err)
{
    size_t size = mf_dtype_size(a->dtype), most = PIECE / size;
    if (a->data || a->count == 0)
        return fd >= 0 && put(fd, a->data, a->bytes) ? mf_err_errno(err, "cannot write %s", part) : 0;
    for (size_t at = 0; at < a->count; at += most) {
        size_t n = a->count - at < most ? a->count - at : most;
        int rc = from->read(from->self, a, at, n, piece, err);
        if (rc)
            return rc;
        if (fd >= 0 && put(fd, piece, n * size))
            return mf_err_errno(err, "cannot write %s", part);
    }
    return 0;
}

int mf_safetensors_pass(struct mf_array *tensors, int n, const struct mf_origin *from, struct mf_err *err)
{
    char *piece = mf_xcalloc(1, PIECE);
    int rc = 0;
    mf_safetensors_sort(tensors, n, NULL, 0);
    for (int i = 0; i < n && !rc; i++)
        rc = put_tensor(-1, &tensors[i], from, piece, "", err);
    free(piece);
    return rc;
}

static int write_all(const char *part, const char *path, const char *text, size_t size, const struct mf_array *tensors,
                     int n, const struct mf_origin *from, struct mf_err *err)
{
    int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return mf_err_errno(err, "cannot create %s", part);
    int rc = put(fd, text, size) ? mf_err_errno(err, "cannot write %s", part) : 0;
    char *piece = mf_xcalloc(1, PIECE);
    for (int i = 0; i < n && !rc; i++)
        rc = put_tensor(fd, &tensors[i], from, piece, part, err);
    free(piece);
    if (close(fd) < 0 && !rc)
        rc = mf_err_errno(err, "cannot write %s", part);
    if (!rc)
        return mf_publish(part, path, err);
    unlink(part);
    return rc;
}

int mf_safetensors_write(const char *path, struct mf_array *tensors, int n, struct mf_meta *meta, int n_meta,
                         struct mf_err *err)
{
    return mf_safetensors_copy(path, tensors, n, meta, n_meta, NULL, err);
}

int mf_safetensors_copy(const char *path, struct mf_array *tensors, int n, struct mf_meta *meta, int n_meta,
                        const struct mf_origin *from, struct mf_err *err)
{
    char *text = NULL, *part = NULL;
    size_t size = 0;
    mf_safetensors_sort(tensors, n, meta, n_meta);
    int rc = header(&text, &size, tensors, n, meta, n_meta, err);
    if (!rc && size - 8 > MF_SAFETENSORS_HEADER_MAX)
        rc = mf_err_set(err, MF_EUSAGE, "the header of %s would be %zu bytes; a safetensors file allows %d", path,
                        size - 8, MF_SAFETENSORS_HEADER_MAX);
    if (!rc && !(part = mf_publish_part(path, err)))
        rc = err->code;
    if (!rc)
        rc = write_all(part, path, text, size, tensors, n, from, err);
    free(part);
    free(text);
    return rc;
}
