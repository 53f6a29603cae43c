/* meet.c - ranks that come to the same place: what each has done, and the error of the first that failed. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/stop.h"
#include "ranks/ranks_priv.h"

/* In all, the error of the first rank that has one. */
static int share_error(struct mf_ranks *r, struct mf_err *err)
{
    struct mf_err *all = mf_xcalloc((size_t)r->n, sizeof *all);
    int first = -1;
    if (r->state[r->me].code)
        all[r->me] = *err;
    int rc = mf_ranks_gather_for(r, all, sizeof *all, r->each, MF_RANKS_FOR_OTHERS, err);
    for (int k = 0; k < r->n; k++)
        if (all[k].code && (first < 0 || (all[first].code == MF_EIO && all[k].code != MF_EIO)))
            first = k;
    if (rc == 0) {
        *err = all[first];
        rc = first ? mf_err_at(err, "rank %d on %s", first, r->host[first]) : err->code;
    }
    free(all);
    return rc;
}

/* All are here, with a result each. */
static int join(struct mf_ranks *r, int rc, void *array, size_t item, const size_t *first, struct mf_err *err)
{
    int failed = 0;
    r->state[r->me] = (struct mf_ranks_standing){mf_stop_caught(), rc};
    struct mf_err late;
    if ((rc = mf_ranks_begin_gather(r, r->state, sizeof *r->state, r->each, &late)) ||
        (rc = mf_ranks_begin_gather(r, array, item, first, &late)) ||
        (rc = mf_ranks_wait(r, MF_RANKS_FOR_OTHERS, &late))) {
        *err = r->state[r->me].code ? *err : late;
        return err->code;
    }
    for (int k = 0; k < r->n; k++)
        failed += r->state[k].code != 0;
    return failed ? share_error(r, err) : 0;
}

static int meet(struct mf_ranks *r, int rc, void *array, size_t item, const size_t *first, struct mf_err *err)
{
    int32_t most = 0;
    r->minibatches++;
    rc = join(r, rc, array, item, first, err);
    for (int k = 0; rc == 0 && k < r->n; k++)
        most = r->state[k].signal > most ? r->state[k].signal : most;
    if (rc == 0)
        mf_stop_show(most);
    return rc;
}

int mf_ranks_meet_with(struct mf_ranks *r, void *array, size_t item, const size_t *first, struct mf_err *err)
{
    return r ? meet(r, 0, array, item, first, err) : 0;
}

int mf_ranks_meet(struct mf_ranks *r, int rc, struct mf_err *err)
{
    return r ? meet(r, rc, NULL, 0, r->each, err) : rc;
}

int mf_ranks_await(struct mf_ranks *r, struct mf_err *err)
{
    return r ? mf_ranks_gather_for(r, r->state, sizeof *r->state, r->each, MF_RANKS_FOR_FILES, err) : 0;
}

int mf_ranks_agree(struct mf_ranks *r, int rc, struct mf_err *err)
{
    return r ? join(r, rc, NULL, 0, r->each, err) : rc;
}

int mf_ranks_add(struct mf_ranks *r, int64_t *number, int n, struct mf_err *err)
{
    const size_t size = (size_t)n * sizeof *number;
    if (!r)
        return 0;
    int64_t *all = mf_xcalloc((size_t)r->n, size);
    memcpy(all + r->me * n, number, size);
    int rc = mf_ranks_gather_for(r, all, size, r->each, MF_RANKS_FOR_OTHERS, err);
    for (int i = 0; rc == 0 && i < n; i++) {
        number[i] = 0;
        for (int k = 0; k < r->n; k++)
            number[i] += all[k * n + i];
    }
    free(all);
    return rc;
}

int mf_ranks_compare(struct mf_ranks *r, const void *bytes, size_t n, const char *what, struct mf_err *err)
{
    if (!r)
        return 0;
    void *theirs = mf_xcalloc(n, 1);
    memcpy(theirs, bytes, n);
    int rc = mf_ranks_broadcast(r, theirs, n, err);
    if (rc == 0 && memcmp(theirs, bytes, n) != 0)
        rc = mf_err_set(err, MF_EDEVICE,
                        "%s of rank %d on %s is not that of rank 0 on %s: all ranks need the same programs, files and "
                        "kind of processor or GPU",
                        what, r->me, r->host[r->me], r->host[0]);
    free(theirs);
    return rc;
}
