#include "stream/columns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mf_columns_init(struct mf_columns *c, size_t T, size_t N)
{
    *c = (struct mf_columns){.T = T, .N = N};
}

static size_t steps(const struct mf_columns *c, const struct mf_column *q)
{
    return q->per_env ? 1 : c->T;
}

static int add(struct mf_columns *c, const char *name, enum mf_dtype dtype, int rank, const size_t *dim, bool per_env)
{
    if (c->n == MF_COLUMNS_MAX)
        abort(); /* whoever adds them knows how many there are */
    struct mf_column *q = &c->column[c->n];
    *q = (struct mf_column){.dtype = dtype, .rank = rank, .bytes = mf_dtype_size(dtype), .per_env = per_env};
    snprintf(q->name, sizeof q->name, "%s", name);
    for (int i = 0; i < rank; i++)
        q->bytes *= q->dim[i] = dim[i];
    return c->n++;
}

int mf_columns_add(struct mf_columns *c, const char *name, enum mf_dtype dtype, int rank, const size_t *dim)
{
    return add(c, name, dtype, rank, dim, false);
}

int mf_columns_add_last(struct mf_columns *c, const char *name, enum mf_dtype dtype)
{
    return add(c, name, dtype, 0, NULL, true);
}

static void place(struct mf_columns *c, struct mf_arena *a)
{
    for (int i = 0; i < c->n; i++)
        c->column[i].data = mf_arena_take(a, steps(c, &c->column[i]) * c->N, c->column[i].bytes);
}

size_t mf_columns_bytes(const struct mf_columns *c)
{
    struct mf_columns counted = *c;
    struct mf_arena arena = {0};
    place(&counted, &arena);
    return arena.used;
}

int mf_columns_alloc(struct mf_columns *c, struct mf_err *err)
{
    place(c, &c->arena);
    int rc = mf_arena_alloc(&c->arena, "a rollout", err);
    if (rc == 0)
        place(c, &c->arena);
    return rc;
}

void *mf_columns_at(const struct mf_columns *c, int id, size_t t)
{
    const struct mf_column *q = &c->column[id];
    return q->data + t * c->N * q->bytes;
}

size_t mf_columns_env_bytes(const struct mf_columns *c)
{
    size_t total = 0;
    for (int i = 0; i < c->n; i++)
        total += steps(c, &c->column[i]) * c->column[i].bytes;
    return total;
}

int mf_columns_slice(const struct mf_columns *c, struct mf_frame *f, size_t first, size_t count, struct mf_err *err)
{
    for (int i = 0; i < c->n; i++) {
        const struct mf_column *q = &c->column[i];
        size_t dim[MF_RANK_MAX], rank = 0;
        if (!q->per_env)
            dim[rank++] = c->T;
        dim[rank++] = count;
        for (int d = 0; d < q->rank; d++)
            dim[rank++] = q->dim[d];
        void *data;
        int rc = mf_frame_add(f, q->name, q->dtype, (int)rank, dim, &data, err);
        if (rc)
            return rc;
        for (size_t t = 0; t < steps(c, q); t++)
            memcpy((char *)data + t * count * q->bytes, q->data + (t * c->N + first) * q->bytes, count * q->bytes);
    }
    return 0;
}

void mf_columns_clear(struct mf_columns *c)
{
    memset(c->arena.base, 0, c->arena.size);
}

void mf_columns_release(struct mf_columns *c)
{
    mf_arena_release(&c->arena);
    *c = (struct mf_columns){0};
}
