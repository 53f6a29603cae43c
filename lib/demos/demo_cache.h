/* demo_cache.h - pages of demonstrations' columns, as many in memory as may be (demos.h).
 *
 * A page is what is read at once: a demo's whole column where that is small,
 * else so many of its chunks, or rows where it has none, that they make up
 * PAGE_MIN. Which page gives way is a clock's choice: one that was not asked
 * for since the hand last came by.
 */
#ifndef MF_DEMOS_DEMO_CACHE_H
#define MF_DEMOS_DEMO_CACHE_H

#include "demos/demos.h"
#include "demos/h5.h"

struct mf_demo_cache;

/* Takes the file. limit: bytes. */
struct mf_demo_cache *mf_demo_cache_new(hid_t file, const char *path, size_t limit);
void mf_demo_cache_free(struct mf_demo_cache *c);

/* One more (demo, column), in the order demo * n_columns + column: `set` is its dataset of n rows of `row` bytes. */
void mf_demo_cache_add(struct mf_demo_cache *c, hid_t set, size_t n, size_t row);

#endif
