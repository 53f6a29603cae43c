#include "flow/base.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "flow/checkpoint.h"

enum { SAMPLE = 4096 };

static uint64_t mixed(uint64_t h, const void *data, size_t n)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3;
    return h;
}

void mf_base_digest(const struct mf_safetensors *f, char hex[17])
{
    uint64_t h = mixed(0xcbf29ce484222325, f->header, f->header_size);
    h = mixed(h, &f->size, sizeof f->size);
    for (int i = 0; i < f->n; i++) {
        const struct mf_array *a = &f->tensors[i];
        const size_t n = a->bytes < SAMPLE ? a->bytes : SAMPLE;
        h = mixed(h, a->data, n);
        h = mixed(h, (const char *)a->data + a->bytes - n, n);
    }
    snprintf(hex, 17, "%016jx", (uintmax_t)h);
}

void mf_base_path(const char *path, char *to, size_t size)
{
    const char *slash = strrchr(path, '/');
    snprintf(to, size, "%.*s" MF_BASE, slash ? (int)(slash - path) + 1 : 0, path);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct mf_array *)a)->name, ((const struct mf_array *)b)->name);
}

static void join(struct mf_safetensors *f, const struct mf_safetensors *base)
{
    int n, own = f->n;
    struct mf_array *all = mf_weights_alone(base, false, &n);
    f->tensors = mf_xrealloc(f->tensors, (size_t)(own + n) + 1, sizeof *f->tensors);
    for (int i = 0; i < n; i++)
        if (!bsearch(&all[i], f->tensors, (size_t)own, sizeof *all, by_name))
            f->tensors[f->n++] = all[i];
    free(all);
    qsort(f->tensors, (size_t)f->n, sizeof *f->tensors, by_name);
}

int mf_base_join(struct mf_safetensors *f, struct mf_safetensors *base, const char *path, struct mf_err *err)
{
    const char *digest = mf_safetensors_meta(f, MF_BASE);
    char beside[4096], hex[17];
    *base = (struct mf_safetensors){0};
    if (!digest)
        return 0;
    mf_base_path(path, beside, sizeof beside);
    int rc = mf_safetensors_open(base, beside, err);
    if (rc)
        return mf_err_at(err, "%.300s leaves its frozen parameters in another checkpoint: copy or link that to %.300s",
                         path, beside);
    mf_base_digest(base, hex);
    if (strcmp(hex, digest) != 0) {
        mf_safetensors_close(base);
        return mf_err_set(
            err, MF_EUSAGE,
            "%.300s leaves its frozen parameters in the checkpoint of digest %.16s, and %.300s has %s: copy or "
            "link the right one there",
            path, digest, beside, hex);
    }
    join(f, base);
    return 0;
}
