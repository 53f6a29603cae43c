/* mem.h - one allocation per lifetime, then views into it.
 *
 * mf_xcalloc is for small control structures and ends the process when memory
 * is out; arrays whose size comes from data go through mf_alloc or an arena,
 * which report MF_ENOMEM.
 *
 * An arena allocates once; what is taken from it dies with it. One function
 * takes all arrays of a lifetime and is called twice: an empty arena only
 * counts, which is also how memory is estimated, and then it gives.
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

/* 64-byte aligned, zeroed; free() gives it back. `what` names it in the error. */
int mf_alloc(void **p, size_t size, const char *what, struct mf_err *err);

/* 64-byte aligned, zeroed; NULL where the arena is empty: then `used` grows by the bytes that it will take. */
void *mf_arena_take(struct mf_arena *a, size_t count, size_t size);
int mf_arena_alloc(struct mf_arena *a, const char *what, struct mf_err *err); /* the bytes that were counted */
void mf_arena_release(struct mf_arena *a);                                    /* empty again; safe on a zeroed arena */

#endif
