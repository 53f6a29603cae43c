#include "base/mem.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGN = 64, HUGE = 2 << 20 /* a huge page: fewer TLB misses */ };

static const size_t MOST = SIZE_MAX / 4; /* bytes of one allocation */

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
    void *q = size > MOST ? NULL : aligned_alloc(align, (size + !size + align - 1) / align * align);
    if (!q)
        return mf_err_set(err, MF_ENOMEM, "cannot allocate %zu bytes for %s", size, what);
    if (align == HUGE)
        madvise(q, size, MADV_HUGEPAGE);
    memset(q, 0, size);
    *p = q;
    return 0;
}

void *mf_arena_take(struct mf_arena *a, size_t count, size_t size)
{
    const size_t bytes = size && count > MOST / size ? 2 * MOST : padded(count * size);
    if (!a->base) {
        a->used += a->used > MOST ? 0 : bytes; /* an overflow stays an overflow */
        return NULL;
    }
    if (bytes > a->size - a->used)
        abort(); /* more than was counted: a bug */
    void *p = a->base + a->used;
    a->used += bytes;
    return p;
}

int mf_arena_alloc(struct mf_arena *a, const char *what, struct mf_err *err)
{
    void *base = NULL;
    int rc = mf_alloc(&base, a->used, what, err);
    if (rc == 0)
        *a = (struct mf_arena){.base = base, .size = a->used};
    return rc;
}

void mf_arena_release(struct mf_arena *a)
{
    free(a->base);
    *a = (struct mf_arena){0};
}
