/* columns.h - the arrays of a rollout while it grows, then cut into slices of environments.
 *
 * Every array is (T, N, ...), stored whole. A slice is a frame's arrays over
 * environments [first, first + count).
 */
#ifndef MF_STREAM_COLUMNS_H
#define MF_STREAM_COLUMNS_H

#include "base/mem.h"
#include "stream/frame.h"

enum { MF_COLUMNS_MAX = 32 };

struct mf_columns {
    size_t T, N;
    int n;
    struct mf_column {
        char name[MF_NAME_MAX];
        enum mf_dtype dtype;
        int rank;             /* of what follows (T, N), or (N) */
        size_t dim[4], bytes; /* of one decision of one environment */
        bool per_env;         /* (N, ...): no T */
        char *data;
    } column[MF_COLUMNS_MAX];
    struct mf_arena arena;
};

/* Columns are added first, then allocated all at once. */
void mf_columns_init(struct mf_columns *c, size_t T, size_t N);
/* Adds (T, N, dim..) and returns its id. */
int mf_columns_add(struct mf_columns *c, const char *name, enum mf_dtype dtype, int rank, const size_t *dim);
/* Adds (N): one entry per environment. */
int mf_columns_add_last(struct mf_columns *c, const char *name, enum mf_dtype dtype);
size_t mf_columns_bytes(const struct mf_columns *c);               /* that allocating takes */
int mf_columns_alloc(struct mf_columns *c, struct mf_err *err);    /* zeroed */
void *mf_columns_at(const struct mf_columns *c, int id, size_t t); /* the (N, ...) of step t; t 0 of a per-env array */
size_t mf_columns_env_bytes(const struct mf_columns *c);           /* what one environment's T steps take */
int mf_columns_slice(const struct mf_columns *c, struct mf_frame *f, size_t first, size_t count, struct mf_err *err);
void mf_columns_clear(struct mf_columns *c); /* back to zeros, for the next rollout */
void mf_columns_release(struct mf_columns *c);

#endif
