/* demo_cache.h - a cache of pages of demonstrations' columns (demos.h).
 *
 * A page is read at once: a demo's whole column where that is small, else as many of its chunks, or rows where it has
 * none, as make up PAGE_MIN. Pages are evicted by the clock algorithm: one that was not used since the hand last
 * passed.
 */
#ifndef MF_DEMOS_DEMO_CACHE_H
#define MF_DEMOS_DEMO_CACHE_H

#include "demos/demos.h"
#include "demos/h5.h"

struct mf_demo_cache;

/* Takes the file. limit: bytes of all pages. */
struct mf_demo_cache *mf_demo_cache_new(hid_t file, const char *path, size_t limit);
void mf_demo_cache_free(struct mf_demo_cache *c);

/* Adds a (demo, column), in the order demo * n_columns + column; `set`: its dataset of n rows of `row` bytes. */
void mf_demo_cache_add(struct mf_demo_cache *c, hid_t set, size_t n, size_t row);

/* Reads the dataset data/DEMO/NAME of one number for each of n steps. 1, or 0 where the demo has none. */
int mf_demo_cache_read(struct mf_demo_cache *c, const char *demo, const char *name, size_t n, float *to,
                       struct mf_err *err);
const char *mf_demo_cache_path(const struct mf_demo_cache *c);

#endif
