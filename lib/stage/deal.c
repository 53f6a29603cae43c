/* deal.c - a rollout with large observations in several ranks: each gets those of its share of the decisions
 * (stream/rollout.h), and all of the rest.
 */
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "ranks/ranks.h"
#include "stage/stage_priv.h"
#include "stream/rollout.h"

/* Malformed ones are not shared out: all ranks find the same error. */
static bool is_large(const struct mf_frame *f, int ranks)
{
    const struct mf_array *t = mf_frame_kind(f) == MF_ROLLOUT ? mf_frame_find(f, "terminated") : NULL;
    size_t bytes = 0;
    if (!t || t->rank != 2 || t->count < (size_t)ranks || !mf_frame_bytes(f))
        return false;
    for (int i = 0; i < mf_frame_arrays(f); i++) {
        const struct mf_array *a = mf_frame_array(f, i);
        if (!mf_is_observation(a))
            continue;
        if (a->rank < 2 || a->dim[0] != t->dim[0] || a->dim[1] != t->dim[1])
            return false;
        bytes += a->bytes;
    }
    return bytes / t->count >= MF_SHARED_BYTES;
}

static size_t decision_bytes(const struct mf_array *a)
{
    size_t n = mf_dtype_size(a->dtype);
    for (int i = 2; i < a->rank; i++)
        n *= a->dim[i];
    return n;
}

/* Replaces an observation by one of so many decisions, whose numbers are to be written to *data. */
static int resize(struct mf_frame *f, const struct mf_array *a, size_t decisions, void **data, struct mf_err *err)
{
    struct mf_array is = *a;
    is.dim[0] = 1;
    is.dim[1] = decisions;
    return mf_frame_add(f, is.name, is.dtype, is.rank, is.dim, data, err);
}

static void say(struct mf_run *run, const struct mf_array *all, int n)
{
    size_t bytes = 0;
    for (int i = 0; i < n; i++)
        bytes += decision_bytes(&all[i]);
    if (!run->dealt)
        mf_log(MF_LOG_INFO, "%d ranks share out observations of %zu bytes a decision", mf_ranks_count(run->ranks),
               bytes);
    run->dealt = true;
}

int mf_deal_take(struct mf_run *run, struct mf_frame *f, struct mf_array **all, struct mf_err *err)
{
    void *none;
    int rc = 0, n = mf_frame_arrays(f), k = 0;
    *all = NULL;
    if (!is_large(f, mf_ranks_count(run->ranks)))
        return 0;
    *all = mf_xcalloc((size_t)n, sizeof **all);
    for (int i = 0; rc == 0 && i < n; i++) {
        const struct mf_array *a = mf_frame_array(f, i);
        if (mf_is_observation(a)) {
            (*all)[k++] = *a;
            rc = resize(f, a, 0, &none, err);
        }
    }
    say(run, *all, k);
    return rc;
}

int mf_deal(const struct mf_run *run, struct mf_frame *f, const struct mf_array *all, struct mf_err *err)
{
    const int ranks = mf_ranks_count(run->ranks), me = mf_ranks_me(run->ranks);
    const size_t decisions = mf_frame_find(f, "terminated")->count;
    size_t *first = mf_xcalloc((size_t)ranks + 1, sizeof *first);
    int rc = 0;
    for (int k = 0; k <= ranks; k++)
        first[k] = mf_share_first(decisions, k, ranks);
    for (int i = 0; rc == 0 && i < mf_frame_arrays(f); i++) {
        const struct mf_array *a = mf_frame_array(f, i);
        const size_t bytes = decision_bytes(a);
        void *mine;
        if (!mf_is_observation(a))
            continue;
        rc = resize(f, a, first[me + 1] - first[me], &mine, err);
        if (rc == 0)
            rc = mf_ranks_scatter(run->ranks, all ? (all++)->data : NULL, mine, bytes, first, err);
    }
    mf_frame_set_share(f, me, ranks);
    free(first);
    return rc;
}
