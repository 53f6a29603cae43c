/* sum.c - the sum of the lanes, in their order: by this process alone, or by ranks that have some lanes each.
 *
 * Then every rank gets a part of the columns of all lanes, sums it, and all get the sums: the bits of one process, for
 * less than twice the bytes of an all-reduce whose order depends on the number of ranks.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cpu/program.h"
#include "ranks/ranks.h"

struct extent { /* slices of a lane */
    const struct mf_cpu_run *r;
    size_t first, end;
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

int mf_cpu_first_lane(const struct mf_program *p, const struct mf_ranks *ranks, int rank)
{
    return (int)mf_ranks_first(ranks, rank, (size_t)p->l->lanes);
}

/* sum = lane 0 + lane 1 + .., in strips, so that all lanes are read in sequence. */
static void sum_slice(void *arg, int i)
{
    const struct extent *x = arg;
    const struct mf_program *p = x->r->p;
    const size_t slice = x->first + (size_t)i, used = p->written[slice] ? least(x->r->tiles, (size_t)p->l->lanes) : 0;
    const size_t end = least((slice + 1) * MF_SLICE, p->lane);
    for (size_t at = slice * MF_SLICE; at < end; at += MF_STRIP) {
        float sum[MF_STRIP] = {0};
        for (size_t l = 0; l < used; l++)
            for (size_t j = 0; j < MF_STRIP; j++)
                sum[j] += p->lanes[l * p->lane + at + j];
        memcpy(p->sum + at, sum, sizeof sum);
    }
}

static void sum_slices(const struct mf_cpu_run *r, size_t first, size_t end)
{
    struct extent x = {r, first, end};
    mf_workers_each(r->p->dev->workers, (int)(end - first), sum_slice, &x);
}

/* ---- with other ranks ---- */

/* The slices from first to before end, to which tiles write. */
static int sum_extent(const struct mf_cpu_run *r, size_t first, size_t end, struct mf_err *err)
{
    const struct mf_program *p = r->p;
    const int n = mf_ranks_count(r->ranks), me = mf_ranks_me(r->ranks);
    size_t *row = mf_xcalloc(2 * ((size_t)n + 1), sizeof *row), *column = row + n + 1;
    for (int k = 0; k <= n; k++) {
        row[k] = least((size_t)mf_cpu_first_lane(p, r->ranks, k), r->tiles);
        column[k] = least((first + mf_ranks_first(r->ranks, k, end - first)) * MF_SLICE, p->lane);
    }
    int rc = mf_ranks_exchange(r->ranks, p->lanes, p->lane, row, column, err);
    if (rc == 0) {
        sum_slices(r, first + mf_ranks_first(r->ranks, me, end - first),
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
            sum_slices(r, first, end);
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
    const size_t first = tile * r->tile, n = least(r->batch->n - first, r->tile);
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
        first[rank_of_tile(r, tile) + 1] += floats * least(r->batch->n - tile * r->tile, r->tile);
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
        sum_slices(r, 0, slices);
        return 0;
    }
    if ((rc = mf_ranks_meet(r->ranks, err)) || (rc = share_fetches(r, err)))
        return rc;
    return sum_together(r, slices, err);
}
