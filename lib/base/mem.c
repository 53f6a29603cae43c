#include "base/mem.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGN = 64, HUGE = 2 << 20 /* a huge page: numbers that are read over and over miss fewer translations */ };

static size_t padded(size_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static void *or_die(void *p)
{
    if (!p) {
        fputs("mf: error: out of memory\n", stderr);
        _exit(1);
    }
    return p;
}

void *mf_xcalloc(size_t count, size_t size)
{
    return or_die(calloc(count ? count : 1, size ? size : 1));
}

void *mf_xrealloc(void *p, size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size)
        return or_die(NULL);
    return or_die(realloc(p, count && size ? count * size : 1));
}

char *mf_xstrdup(const char *s)
{
    return or_die(strdup(s));
}

int mf_alloc(void **p, size_t size, const char *what, struct mf_err *err)
{
    size_t align = size < HUGE ? ALIGN : HUGE;
    void *q = size > SIZE_MAX / 2 ? NULL : aligned_alloc(align, (size + !size + align - 1) / align * align);
    if (!q)
        return mf_err_set(err, MF_ENOMEM, "cannot allocate %zu bytes for %s", size, what);
    if (align == HUGE)
        madvise(q, size, MADV_HUGEPAGE);
    memset(q, 0, size);
    *p = q;
    return 0;
}

int mf_arena_init(struct mf_arena *a, size_t size, struct mf_err *err)
{
    void *base = NULL;
    int rc = mf_alloc(&base, size, "an arena", err);
    if (rc == 0)
        *a = (struct mf_arena){.base = base, .size = padded(size ? size : 1)};
    return rc;
}

void *mf_arena_take(struct mf_arena *a, size_t size)
{
    if (padded(size) > a->size - a->used)
        abort(); /* a plan that was too small is a bug, not an error */
    void *p = a->base + a->used;
    a->used += padded(size);
    return p;
}

void mf_arena_release(struct mf_arena *a)
{
    free(a->base);
    *a = (struct mf_arena){0};
}
