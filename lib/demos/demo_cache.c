#include "demos/demo_cache.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/learnable.h"
#include "base/mem.h"
#include "demos/demo_words.h"

enum { PAGE_MIN = 64 << 10, WHOLE_MAX = 1 << 20, CONVERT = 64 << 10, MAPPED = 128 << 10 };

struct column {    /* of one demo */
    uint32_t rows; /* in a page */
    uint32_t page; /* index of its first page */
};

struct page {
    char *data; /* NULL: not in memory */
    size_t bytes;
    bool asked; /* used since the hand passed */
};

struct mf_demo_cache {
    char *path;
    hid_t file, access, transfer;
    size_t limit, used;
    struct column *column;
    size_t n_columns;
    struct page *page;
    size_t n_pages, room; /* room: allocated pages */
    uint32_t *here;       /* the pages in memory, in no order */
    size_t n_here, hand;
};

struct mf_demo_cache *mf_demo_cache_new(hid_t file, const char *path, size_t limit)
{
    struct mf_demo_cache *c = mf_xcalloc(1, sizeof *c);
    c->file = file;
    c->path = mf_xstrdup(path);
    c->limit = limit;
    /* Large pages go back to the system when they are dropped: in the heap, what HDF5 allocates between them keeps
     * them. */
    mallopt(M_MMAP_THRESHOLD, MAPPED);
    c->access = H5Pcreate(H5P_DATASET_ACCESS);
    H5Pset_chunk_cache(c->access, 0, 0, 0); /* a page is read whole and once */
    c->transfer = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_buffer(c->transfer, CONVERT, NULL, NULL); /* which is cleared for every read: 1 MiB of itself */
    return c;
}

void mf_demo_cache_free(struct mf_demo_cache *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->n_here; i++)
        free(c->page[c->here[i]].data);
    mf_h5_close(c->transfer);
    mf_h5_close(c->access);
    mf_h5_close(c->file);
    free(c->column);
    free(c->page);
    free(c->here);
    free(c->path);
    free(c);
}

static size_t chunk_rows(hid_t set)
{
    hsize_t dim[MF_OBS_RANK + 1];
    hid_t plist = H5Dget_create_plist(set);
    bool chunked = H5Pget_layout(plist) == H5D_CHUNKED && H5Pget_chunk(plist, MF_OBS_RANK + 1, dim) > 0;
    mf_h5_close(plist);
    return chunked ? (size_t)dim[0] : 1;
}

void mf_demo_cache_add(struct mf_demo_cache *c, hid_t set, size_t n, size_t row)
{
    size_t rows = n;
    if (n * row > WHOLE_MAX) {
        size_t step = chunk_rows(set);
        rows = (PAGE_MIN + row * step - 1) / (row * step) * step;
        rows = rows < n ? rows : n;
    }
    size_t pages = (n + rows - 1) / rows;
    if ((c->n_columns & (c->n_columns - 1)) == 0) /* full at every power of two */
        c->column = mf_xrealloc(c->column, c->n_columns ? 2 * c->n_columns : 1, sizeof *c->column);
    c->column[c->n_columns++] = (struct column){.rows = (uint32_t)rows, .page = (uint32_t)c->n_pages};
    if (c->n_pages + pages > c->room) {
        c->room = 2 * c->room + pages;
        c->page = mf_xrealloc(c->page, c->room, sizeof *c->page);
        c->here = mf_xrealloc(c->here, c->room, sizeof *c->here);
    }
    for (size_t i = 0; i < pages; i++)
        c->page[c->n_pages++] = (struct page){.bytes = row * (i + 1 < pages ? rows : n - i * rows)};
}

static void make_room(struct mf_demo_cache *c, size_t bytes)
{
    while (c->n_here && c->used + bytes > c->limit) {
        c->hand = c->hand < c->n_here ? c->hand : 0;
        struct page *p = &c->page[c->here[c->hand]];
        if (p->asked) {
            p->asked = false;
            c->hand++;
            continue;
        }
        c->used -= p->bytes;
        free(p->data);
        p->data = NULL;
        c->here[c->hand] = c->here[--c->n_here];
    }
}

static int check_numbers(const struct mf_demo_cache *c, const char *path, const float *x, size_t n, size_t count,
                         size_t first, struct mf_err *err)
{
    const size_t i = mf_unlearnable_at(x, n * count);
    if (i == n * count)
        return 0;
    return mf_err_set(err, MF_EFORMAT, "'%s': /%s[%zu, %zu] is %g%s", c->path, path, first + i / count, i % count,
                      (double)x[i], mf_unlearnable_why((double)x[i]));
}

/* Are the bytes in memory the same as in the file? */
static bool is_as_stored(hid_t set, const struct mf_demo_column *k)
{
    hid_t type = H5Dget_type(set);
    const bool same = H5Tequal(type, k->is.u8 ? H5T_NATIVE_UCHAR : H5T_NATIVE_FLOAT) > 0;
    mf_h5_close(type);
    return same;
}

/* Rows [first, first + n) of a dataset. */
static int read_rows(struct mf_demo_cache *c, const char *path, const struct mf_demo_column *k, size_t first, size_t n,
                     void *to, struct mf_err *err)
{
    hsize_t start[MF_OBS_RANK + 1] = {first}, count[MF_OBS_RANK + 1] = {n};
    for (int i = 0; i < mf_obs_rank(&k->is); i++)
        count[i + 1] = (hsize_t)k->is.dim[i];
    struct mf_h5_held held = {0};
    mf_h5_guard(c->path);
    mf_h5_follow(c->access);
    hid_t set = H5Dopen2(c->file, path, c->access), file = H5Dget_space(set);
    int rc = mf_h5_hold(set, &held, err);
    int rank = H5Sget_simple_extent_ndims(file);
    hid_t memory = H5Screate_simple(rank, count, NULL);
    H5Sselect_hyperslab(file, H5S_SELECT_SET, start, NULL, count, NULL);
    if (rc == 0 && H5Dread(set, k->is.u8 ? H5T_NATIVE_UCHAR : H5T_NATIVE_FLOAT, memory, file, c->transfer, to) < 0)
        rc = mf_h5_unread(err, "it cannot be read");
    else if (rc == 0 && is_as_stored(set, k) && n == (size_t)H5Sget_simple_extent_npoints(file) / k->count)
        rc = mf_h5_check_crc(set, to, n * k->bytes, err);
    mf_h5_close(memory);
    mf_h5_close(file);
    mf_h5_close(set);
    mf_h5_let_go(&held);
    if (rc)
        mf_err_at(err, "'%s', /%s", c->path, path);
    if ((rc = mf_h5_unguard(rc, c->path, err)))
        return rc;
    return k->is.u8 ? 0 : check_numbers(c, path, to, n, k->count, first, err);
}

/* 1, and how it is stored, of a dataset of n numbers; 0: there is none. */
static int find_numbers(struct mf_demo_cache *c, const char *path, size_t n, bool *u8, struct mf_err *err)
{
    hsize_t dim[2] = {0, 1};
    enum mf_dtype dtype;
    hid_t set;
    int rank, rc = mf_h5_has(c->file, path, err);
    if (rc <= 0 || (rc = mf_h5_object(c->file, path, &set, err)))
        return rc;
    rc = mf_h5_shape(set, 2, &rank, dim, err);
    if (rc == 0 && (dim[0] != n || dim[1] != 1))
        rc = mf_err_set(err, MF_EFORMAT, "it has not one number for each of the %zu steps", n);
    rc = rc ? rc : mf_h5_numbers(set, &dtype, err);
    rc = rc ? rc : mf_h5_whole(set, NULL, err);
    *u8 = rc == 0 && dtype == MF_U8;
    mf_h5_close(set);
    return rc ? rc : 1;
}

int mf_demo_cache_read(struct mf_demo_cache *c, const char *demo, const char *name, size_t n, float *to,
                       struct mf_err *err)
{
    struct mf_demo_column k = {.count = 1, .is.dim = {1}};
    char path[160];
    snprintf(path, sizeof path, "data/%s/%s", demo, name);
    mf_h5_guard(c->path);
    int rc = find_numbers(c, path, n, &k.is.u8, err);
    if (rc < 0)
        mf_err_at(err, "'%s', /%s", c->path, path);
    if ((rc = mf_h5_unguard(rc, c->path, err)) <= 0)
        return rc;
    k.bytes = k.is.u8 ? 1 : sizeof(float);
    if ((rc = read_rows(c, path, &k, 0, n, to, err)))
        return rc;
    for (size_t t = n; k.is.u8 && t-- > 0;) /* from the end: the bytes lie where the floats go */
        to[t] = ((const uint8_t *)to)[t];
    return 1;
}

const char *mf_demo_cache_path(const struct mf_demo_cache *c)
{
    return c->path;
}

int mf_demos_rows(struct mf_demos *d, int column, size_t demo, size_t t, const void **rows, size_t *n,
                  struct mf_err *err)
{
    if (d->words && column == d->spoken) {
        *rows = mf_demo_words_ids(d->words, demo);
        *n = 1;
        return 0;
    }
    struct mf_demo_cache *c = d->cache;
    const struct column *q = &c->column[demo * (size_t)d->n_columns + (size_t)column];
    const struct mf_demo_column *k = &d->column[column];
    size_t at = t / q->rows, first = at * q->rows;
    struct page *p = &c->page[q->page + at];
    if (!p->data) {
        char path[160];
        void *data = NULL;
        snprintf(path, sizeof path, "data/%s/%s%s", d->demo[demo].name, column ? "obs/" : "", k->is.name);
        make_room(c, p->bytes);
        int rc = mf_alloc(&data, p->bytes, "rows of demonstrations", err);
        if (rc || (rc = read_rows(c, path, k, first, p->bytes / k->bytes, data, err))) {
            free(data);
            return rc;
        }
        p->data = data;
        c->here[c->n_here++] = (uint32_t)(p - c->page);
        c->used += p->bytes;
    }
    p->asked = true;
    *rows = p->data + (t - first) * k->bytes;
    *n = p->bytes / k->bytes - (t - first);
    return 0;
}
