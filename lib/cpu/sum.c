/* sum.c - the sum of the lanes: by this process alone, or by ranks that have some lanes each.
 *
 * Lanes are added in pairs, pairs in pairs, and so on: a tree over the lanes. Each rank adds the whole subtrees that it
 * has, gets a part of the columns of all subtrees, and adds those; then all get the sums. They are the bits of one
 * process, for the bytes of an all-reduce, whose order depends on the number of ranks.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/smaller.h"
#include "cpu/program.h"
#include "ranks/ranks.h"

enum { DEPTH = 8 }; /* 2^(DEPTH - 1) is at least MF_LANES_MAX */

struct rows { /* of p->lanes: subtrees, in order */
    size_t n;
    const size_t *lanes; /* of each; NULL: 1 */
};

struct extent { /* slices of a lane */
    const struct mf_cpu_run *r;
    struct rows rows;
    size_t first;
    float *to; /* the first of rows that are written */
};

int mf_cpu_first_lane(const struct mf_program *p, const struct mf_ranks *ranks, int rank)
{
    return (int)mf_ranks_first(ranks, rank, (size_t)p->l->lanes);
}

/* Lanes with samples, of those before `lane`. */
static size_t used(const struct mf_cpu_run *r, int lane)
{
    return mf_smaller((size_t)lane, r->tiles);
}

/* The lanes of the largest subtree that begins with `first` and ends before `end`. */
static size_t subtree(size_t first, size_t end)
{
    size_t n = 1;
    while (first % (2 * n) == 0 && first + 2 * n <= end)
        n *= 2;
    return n;
}

/* to = the tree over the rows, of which `row` is the first's strip; to may be one of them. Neighbours of the same size
 * are the halves of a subtree. */
static void add_strip(const float *row, size_t stride, struct rows rows, float *to)
{
    float sum[DEPTH][MF_STRIP] = {{0}};
    size_t size[DEPTH];
    int top = 0;
    for (size_t i = 0; i < rows.n; i++) {
        memcpy(sum[top], row + i * stride, sizeof *sum);
        size[top++] = rows.lanes ? rows.lanes[i] : 1;
        for (; top > 1 && (size[top - 2] == size[top - 1] || i + 1 == rows.n); top--) {
            for (size_t j = 0; j < MF_STRIP; j++)
                sum[top - 2][j] += sum[top - 1][j];
            size[top - 2] += size[top - 1];
        }
    }
    memcpy(to, sum[0], sizeof *sum);
}

static void sum_slice(void *arg, int i)
{
    const struct extent *x = arg;
    const struct mf_program *p = x->r->p;
    const size_t slice = x->first + (size_t)i, end = mf_smaller((slice + 1) * MF_SLICE, p->lane);
    for (size_t at = slice * MF_SLICE; at < end; at += MF_STRIP)
        add_strip(p->lanes + at, p->lane, p->written[slice] ? x->rows : (struct rows){0}, x->to + at);
}

static void sum_slices(const struct mf_cpu_run *r, struct rows rows, size_t first, size_t end)
{
    struct extent x = {r, rows, first, r->p->sum};
    mf_workers_each(r->p->dev->workers, (int)(end - first), sum_slice, &x);
}

/* ---- with other ranks ---- */

/* Each rank's lanes as subtrees, rank k's in the rows from row[k] to before row[k + 1]; lanes: of each row. */
static void divide(const struct mf_cpu_run *r, size_t *row, size_t *lanes)
{
    size_t rows = 0;
    for (int k = 0; k < mf_ranks_count(r->ranks); k++) {
        size_t lane = used(r, mf_cpu_first_lane(r->p, r->ranks, k));
        const size_t end = used(r, mf_cpu_first_lane(r->p, r->ranks, k + 1));
        for (; lane < end; lane += lanes[rows++])
            lanes[rows] = subtree(lane, end);
        row[k + 1] = rows;
    }
}

/* Sums this rank's subtrees to their rows, x->rows, none of which is behind the first of its lanes. */
static void fold_slice(void *arg, int i)
{
    const struct extent *x = arg;
    const struct mf_program *p = x->r->p;
    const size_t slice = x->first + (size_t)i, end = mf_smaller((slice + 1) * MF_SLICE, p->lane);
    for (size_t at = slice * MF_SLICE; at < end; at += MF_STRIP) {
        const float *lane = p->lanes + (size_t)x->r->first_lane * p->lane + at;
        float *to = x->to + at;
        for (size_t k = 0; k < x->rows.n; lane += x->rows.lanes[k++] * p->lane, to += p->lane)
            add_strip(lane, p->lane, (struct rows){.n = x->rows.lanes[k]}, to);
    }
}

/* The slices from first to before end, to which tiles write. */
static int sum_extent(const struct mf_cpu_run *r, size_t first, size_t end, struct mf_err *err)
{
    const struct mf_program *p = r->p;
    const int n = mf_ranks_count(r->ranks), me = mf_ranks_me(r->ranks);
    size_t *row = mf_xcalloc(2 * ((size_t)n + 1), sizeof *row), *column = row + n + 1, lanes[MF_LANES_MAX];
    divide(r, row, lanes);
    for (int k = 0; k <= n; k++)
        column[k] = mf_smaller((first + mf_ranks_first(r->ranks, k, end - first)) * MF_SLICE, p->lane);
    const struct rows all = {row[n], lanes}, own = {row[me + 1] - row[me], lanes + row[me]};
    struct extent mine = {r, own, first, p->lanes + row[me] * p->lane};
    mf_workers_each(p->dev->workers, (int)(end - first), fold_slice, &mine);
    int rc = mf_ranks_exchange(r->ranks, p->lanes, p->lane, row, column, err);
    if (rc == 0) {
        sum_slices(r, all, first + mf_ranks_first(r->ranks, me, end - first),
                   first + mf_ranks_first(r->ranks, me + 1, end - first));
        rc = mf_ranks_gather(r->ranks, p->sum, sizeof *p->sum, column, err);
    }
    free(row);
    return rc;
}

/* Slices that no tile writes are 0 in every rank. */
static int sum_together(const struct mf_cpu_run *r, size_t slices, struct mf_err *err)
{
    const bool *written = r->p->written;
    int rc = 0;
    for (size_t first = 0, end; rc == 0 && first < slices; first = end) {
        for (end = first + 1; end < slices && written[end] == written[first]; end++)
            ;
        if (written[first])
            rc = sum_extent(r, first, end, err);
        else
            sum_slices(r, (struct rows){0}, first, end);
    }
    return rc;
}

static int rank_of_tile(const struct mf_cpu_run *r, size_t tile)
{
    const int lane = (int)(tile % (size_t)r->p->l->lanes);
    int k = 0;
    while (lane >= mf_cpu_first_lane(r->p, r->ranks, k + 1))
        k++;
    return k;
}

static int fetches(const struct mf_cpu_run *r)
{
    return r->batch->n_fetches + (r->veto.value.id != 0);
}

/* The fetched floats of a tile, from their places (out) or back. Returns the end of them. */
static float *carry(const struct mf_cpu_run *r, size_t tile, float *packed, bool out)
{
    const size_t first = tile * r->tile, n = mf_smaller(r->batch->n - first, r->tile);
    for (int i = 0; i < fetches(r); i++) {
        const struct mf_fetch *f = mf_cpu_fetch(r, i);
        const size_t size = mf_value_floats(&r->p->l->value[f->value.id]);
        for (size_t s = first; s < first + n; s++, packed += size)
            memcpy(out ? packed : f->base + s * f->stride, out ? f->base + s * f->stride : packed,
                   size * sizeof *packed);
    }
    return packed;
}

static float *carry_rank(const struct mf_cpu_run *r, int k, float *packed, bool out)
{
    for (size_t tile = 0; tile < r->tiles; tile++)
        if (rank_of_tile(r, tile) == k)
            packed = carry(r, tile, packed, out);
    return packed;
}

/* What each rank has fetched: by rank, tile after tile. */
static int share_fetches(const struct mf_cpu_run *r, struct mf_err *err)
{
    const int n = mf_ranks_count(r->ranks), me = mf_ranks_me(r->ranks);
    size_t *first = mf_xcalloc((size_t)n + 1, sizeof *first), floats = 0;
    float *packed = NULL;
    for (int i = 0; i < fetches(r); i++)
        floats += mf_value_floats(&r->p->l->value[mf_cpu_fetch(r, i)->value.id]);
    for (size_t tile = 0; tile < r->tiles; tile++)
        first[rank_of_tile(r, tile) + 1] += floats * mf_smaller(r->batch->n - tile * r->tile, r->tile);
    for (int k = 0; k < n; k++)
        first[k + 1] += first[k];
    int rc = mf_alloc((void **)&packed, first[n] * sizeof *packed, "what a minibatch computes", err);
    if (rc == 0) {
        carry_rank(r, me, packed + first[me], true);
        rc = mf_ranks_gather(r->ranks, packed, sizeof *packed, first, err);
    }
    for (int k = 0; rc == 0 && k < n; k++)
        carry_rank(r, k, packed + first[k], false);
    free(packed);
    free(first);
    return rc;
}

int mf_cpu_sum(struct mf_cpu_run *r, struct mf_err *err)
{
    const size_t slices = (r->p->lane + MF_SLICE - 1) / MF_SLICE;
    int rc;
    if (mf_ranks_count(r->ranks) == 1) {
        sum_slices(r, (struct rows){.n = used(r, r->p->l->lanes)}, 0, slices);
        return 0;
    }
    if ((rc = mf_ranks_meet(r->ranks, err)) || (rc = share_fetches(r, err)))
        return rc;
    return sum_together(r, slices, err);
}
