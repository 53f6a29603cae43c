#include "graph/engine.h"

#include <stdlib.h>

#include "base/mem.h"

int mf_engine_open(struct mf_engine **out, const char *device, int threads, enum mf_precision precision,
                   struct mf_err *err)
{
    struct mf_engine e;
    int rc = mf_dev_find(&e.dev, device, precision, err);
    if (rc)
        return rc;
    if (threads < 0 || threads > 1024)
        return mf_err_set(err, MF_EUSAGE, "threads=%d is not in 0..1024", threads);
    rc = mf_workers_new(&e.workers, threads, err);
    if (rc)
        return rc;
    *out = mf_xcalloc(1, sizeof **out);
    **out = e;
    return 0;
}

void mf_engine_close(struct mf_engine *e)
{
    if (!e)
        return;
    mf_workers_free(e->workers);
    free(e);
}

void mf_engine_each(struct mf_engine *e, int n, void (*fn)(void *arg, int i), void *arg)
{
    mf_workers_each(e->workers, n, fn, arg);
}
