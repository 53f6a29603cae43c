/* sum.c - the sum of the lanes: by this process alone, or by ranks that have some lanes each.
 *
 * Lanes are added in pairs, pairs in pairs, and so on: a tree over the lanes. Each rank adds the whole subtrees that it
 * has, gets the columns of its segment of all subtrees, and adds those. A step then makes of the sums the weights of
 * the segment, which all get (step.c); without a step all get the sums. They are the bits of one process, for the bytes
 * of an all-reduce, whose order depends on the number of ranks.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/smaller.h"
#include "cpu/program.h"
#include "ranks/ranks.h"

enum { DEPTH = 8 }; /* 2^(DEPTH - 1) is at least MF_LANES_MAX */

struct rows { /* of p->lanes: subtrees, in order, each where its first lane is */
    size_t n;
    const size_t *lanes; /* of each; NULL: 1 */
};

struct extent { /* columns of the lanes, in whole strips */
    const struct mf_cpu_run *r;
    struct rows rows;
    size_t first, end;
};

int mf_cpu_first_lane(const struct mf_program *p, int rank)
{
    return (int)mf_ranks_first(p->l->ranks, rank, (size_t)p->l->lanes);
}

size_t mf_cpu_first_column(const struct mf_program *p, int rank)
{
    return rank < mf_ranks_count(p->l->ranks) ? p->l->segment[rank] : p->l->lane;
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
        const size_t lanes = rows.lanes ? rows.lanes[i] : 1;
        memcpy(sum[top], row, sizeof *sum);
        row += lanes * stride;
        size[top++] = lanes;
        for (; top > 1 && (size[top - 2] == size[top - 1] || i + 1 == rows.n); top--) {
            for (size_t j = 0; j < MF_STRIP; j++)
                sum[top - 2][j] += sum[top - 1][j];
            size[top - 2] += size[top - 1];
        }
    }
    memcpy(to, sum[0], sizeof *sum);
}

/* The i'th slice of an extent: its columns from *at to before the result. */
static size_t slice_of(const struct extent *x, int i, size_t *at)
{
    const size_t slice = x->first / MF_SLICE + (size_t)i;
    *at = i ? slice * MF_SLICE : x->first;
    return mf_smaller((slice + 1) * MF_SLICE, x->end);
}

static void each_slice(struct extent *x, void (*fn)(void *arg, int i))
{
    const size_t slices = (x->end + MF_SLICE - 1) / MF_SLICE - x->first / MF_SLICE;
    mf_workers_each(x->r->p->dev->workers, x->first < x->end ? (int)slices : 0, fn, x);
}

static void sum_slice(void *arg, int i)
{
    const struct extent *x = arg;
    const struct mf_program *p = x->r->p;
    size_t at, end = slice_of(x, i, &at);
    const struct rows rows = p->written[at / MF_SLICE] ? x->rows : (struct rows){0};
    for (; at < end; at += MF_STRIP)
        add_strip(p->lanes + at, p->lane, rows, p->sum + at);
}

/* In whole strips: what is summed beside these columns is of no use, and does no harm. */
static void sum_columns(const struct mf_cpu_run *r, struct rows rows, size_t first, size_t end)
{
    struct extent x = {r, rows, first / MF_STRIP * MF_STRIP, (end + MF_STRIP - 1) / MF_STRIP * MF_STRIP};
    if (first < end)
        each_slice(&x, sum_slice);
}

/* ---- with other ranks ---- */

void mf_cpu_divide(const struct mf_program *p, size_t tiles, struct mf_subtrees *s)
{
    const int n = mf_ranks_count(p->l->ranks);
    size_t rows = 0;
    s->row = mf_xcalloc((size_t)n + 1, sizeof *s->row);
    for (int k = 0; k < n; k++) {
        size_t lane = mf_smaller((size_t)mf_cpu_first_lane(p, k), tiles);
        const size_t end = mf_smaller((size_t)mf_cpu_first_lane(p, k + 1), tiles);
        for (; lane < end; lane += s->lanes[rows++]) {
            s->first[rows] = lane;
            s->lanes[rows] = subtree(lane, end);
        }
        s->row[k + 1] = rows;
    }
}

/* Sums this rank's subtrees, x->rows, to the first lane of each. */
static void fold_slice(void *arg, int i)
{
    const struct extent *x = arg;
    const struct mf_program *p = x->r->p;
    size_t at, end = slice_of(x, i, &at);
    for (; at < end; at += MF_STRIP) {
        float *lane = p->lanes + (size_t)x->r->first_lane * p->lane + at;
        for (size_t k = 0; k < x->rows.n; lane += x->rows.lanes[k++] * p->lane)
            add_strip(lane, p->lane, (struct rows){.n = x->rows.lanes[k]}, lane);
    }
}

/* The columns from first to before end, slices to which tiles write: each rank gets those of its segment. */
static int exchange(const struct mf_cpu_run *r, const struct mf_subtrees *s, size_t first, size_t end,
                    struct mf_err *err)
{
    const struct mf_program *p = r->p;
    const int n = mf_ranks_count(p->l->ranks), me = mf_ranks_me(p->l->ranks);
    size_t *column = mf_xcalloc((size_t)n + 1, sizeof *column);
    for (int k = 0; k <= n; k++)
        column[k] = mf_between(mf_cpu_first_column(p, k), first, end);
    struct extent mine = {r, {s->row[me + 1] - s->row[me], s->lanes + s->row[me]}, first, end};
    each_slice(&mine, fold_slice);
    int rc = mf_ranks_exchange(p->l->ranks, p->lanes, p->lane, s->row, s->first, column, err);
    free(column);
    return rc;
}

/* Of the sums, all ranks get what they need, which is all where no step follows. */
static int gather(const struct mf_program *p, bool steps, struct mf_err *err)
{
    const int n = mf_ranks_count(p->l->ranks);
    size_t *first = mf_xcalloc((size_t)n + 1, sizeof *first);
    for (int k = 0; k <= n; k++)
        first[k] = mf_between(mf_cpu_first_column(p, k), steps ? p->l->trained : 0, p->l->lane);
    int rc = mf_ranks_gather(p->l->ranks, p->sum, sizeof *p->sum, first, err);
    free(first);
    return rc;
}

static int sum_together(const struct mf_cpu_run *r, struct mf_err *err)
{
    const struct mf_program *p = r->p;
    const int n = mf_ranks_count(p->l->ranks), me = mf_ranks_me(p->l->ranks);
    struct mf_subtrees s;
    int rc = 0;
    mf_cpu_divide(p, r->tiles, &s);
    for (size_t first = 0, end; rc == 0 && first < p->lane; first = end) {
        const bool written = p->written[first / MF_SLICE];
        for (end = first; end < p->lane && p->written[end / MF_SLICE] == written; end += MF_SLICE)
            ;
        end = mf_smaller(end, p->lane);
        rc = written ? exchange(r, &s, first, end, err) : 0;
    }
    if (rc == 0) {
        sum_columns(r, (struct rows){s.row[n], s.lanes}, mf_cpu_first_column(p, me), mf_cpu_first_column(p, me + 1));
        rc = gather(p, r->step, err);
    }
    free(s.row);
    return rc;
}

static int rank_of_tile(const struct mf_program *p, size_t tile)
{
    const int lane = (int)(tile % (size_t)p->l->lanes);
    int k = 0;
    while (lane >= mf_cpu_first_lane(p, k + 1))
        k++;
    return k;
}

void mf_cpu_ranks(const struct mf_program *p, size_t n, int *of)
{
    const size_t tile = mf_program_tile(p, n);
    for (size_t i = 0; i < n; i++)
        of[i] = i % tile ? of[i - 1] : rank_of_tile(p, i / tile);
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
        if (rank_of_tile(r->p, tile) == k)
            packed = carry(r, tile, packed, out);
    return packed;
}

/* All have computed their tiles. What each rank has fetched: by rank, tile after tile. */
static int meet(const struct mf_cpu_run *r, struct mf_err *err)
{
    const int n = mf_ranks_count(r->p->l->ranks), me = mf_ranks_me(r->p->l->ranks);
    size_t *first = mf_xcalloc((size_t)n + 1, sizeof *first), floats = 0;
    float *packed = NULL;
    for (int i = 0; i < fetches(r); i++)
        floats += mf_value_floats(&r->p->l->value[mf_cpu_fetch(r, i)->value.id]);
    for (size_t tile = 0; tile < r->tiles; tile++)
        first[rank_of_tile(r->p, tile) + 1] += floats * mf_smaller(r->batch->n - tile * r->tile, r->tile);
    for (int k = 0; k < n; k++)
        first[k + 1] += first[k];
    int rc = mf_alloc((void **)&packed, first[n] * sizeof *packed, "what a minibatch computes", err);
    if (rc == 0) {
        carry_rank(r, me, packed + first[me], true);
        rc = mf_ranks_meet_with(r->p->l->ranks, packed, sizeof *packed, first, err);
    }
    for (int k = 0; rc == 0 && k < n; k++)
        carry_rank(r, k, packed + first[k], false);
    free(packed);
    free(first);
    return rc;
}

int mf_cpu_sum(struct mf_cpu_run *r, struct mf_err *err)
{
    struct mf_ranks *const ranks = r->p->l->ranks;
    int rc;
    if (mf_ranks_count(ranks) == 1) {
        sum_columns(r, (struct rows){.n = mf_smaller((size_t)r->p->l->lanes, r->tiles)}, 0, r->p->lane);
        return 0;
    }
    rc = meet(r, err);
    return rc ? rc : sum_together(r, err);
}
