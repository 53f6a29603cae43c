/* mem.h - one allocation per lifetime, then views into it.
 *
 * mf_xcalloc is for small control structures and ends the process if memory is exhausted. Arrays whose size comes from
 * data use mf_alloc or an arena, which report MF_ENOMEM.
 *
 * An arena allocates once, and its arrays are freed with it. One function takes all arrays of a lifetime and is called
 * twice: an empty arena only counts bytes, which is also how memory is estimated; the allocated arena then hands out
 * the arrays.
 *
 *   place(x, &arena);
 *   if ((rc = mf_arena_alloc(&arena, "a minibatch", err)))
 *       return rc;
 *   place(x, &arena);
 */
#ifndef MF_BASE_MEM_H
#define MF_BASE_MEM_H

#include <stddef.h>

#include "base/err.h"

struct mf_arena {
    char *base;        /* NULL: empty */
    size_t used, size; /* bytes */
};

void *mf_xcalloc(size_t count, size_t size);
void *mf_xrealloc(void *p, size_t count, size_t size);
char *mf_xstrdup(const char *s);

/* 64-byte aligned, zeroed; release with free(). `what` names it in the error. */
int mf_alloc(void **p, size_t size, const char *what, struct mf_err *err);

/* 64-byte aligned, zeroed. NULL from an empty arena, whose `used` grows by the bytes needed. */
void *mf_arena_take(struct mf_arena *a, size_t count, size_t size);
int mf_arena_alloc(struct mf_arena *a, const char *what, struct mf_err *err); /* allocate the counted bytes */
void mf_arena_release(struct mf_arena *a);                                    /* empty again; safe on a zeroed arena */

#endif
