/* mem.h - one allocation per lifetime, then views into it.
 *
 * An arena allocates once; what is taken from it dies with it. mf_xcalloc is
 * for small control structures and ends the process when memory is out;
 * arrays whose size comes from data go through mf_alloc or an arena, which
 * report MF_ENOMEM.
 */
#ifndef MF_BASE_MEM_H
#define MF_BASE_MEM_H

#include <stddef.h>

#include "base/err.h"

struct mf_arena {
    char *base;
    size_t used, size;
};

void *mf_xcalloc(size_t count, size_t size);
void *mf_xrealloc(void *p, size_t count, size_t size);
char *mf_xstrdup(const char *s);

/* 64-byte aligned, zeroed; free() gives it back. `what` names it in the error. */
int mf_alloc(void **p, size_t size, const char *what, struct mf_err *err);

int mf_arena_init(struct mf_arena *a, size_t size, struct mf_err *err);
void *mf_arena_take(struct mf_arena *a, size_t size); /* 64-byte aligned, zeroed */
void mf_arena_release(struct mf_arena *a);            /* safe on a zeroed arena */

#endif
