#include "graph/adam.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/smaller.h"
#include "graph/engine.h"
#include "ranks/ranks.h"

size_t *mf_segments(const struct mf_params *ps, int ranks)
{
    const size_t n = (size_t)ranks;
    size_t *segment = mf_xcalloc(n + 1, sizeof *segment), k = 1;
    for (int i = 0; i < ps->n; i++) {
        const struct mf_param *p = &ps->p[i];
        const size_t floats = mf_param_trained(ps, i) ? (size_t)p->rows * (size_t)p->cols : 0;
        for (size_t at = 0; at < floats; at += MF_STEP_SLICE)
            while (k < n && p->at + at >= ps->trained * k / n)
                segment[k++] = p->at + at;
    }
    while (k <= n)
        segment[k++] = ps->trained;
    return segment;
}

int mf_adam_init(struct mf_adam *a, const struct mf_engine *e, const struct mf_params *ps, struct mf_err *err)
{
    struct mf_ranks *const ranks = e ? e->ranks : NULL;
    const bool whole = e && e->device->own_memory;
    const int n = mf_ranks_count(ranks), me = whole ? 0 : mf_ranks_me(ranks);
    size_t *const segment = mf_segments(ps, n);
    for (int k = 1; k < n && whole; k++) /* rank 0's is saved */
        segment[k] = ps->trained;
    *a = (struct mf_adam){.first = segment[me],
                          .floats = segment[me + 1] - segment[me],
                          .beta1 = 0.9,
                          .beta2 = 0.999,
                          .eps = 1e-8,
                          .ranks = ranks,
                          .segment = segment};
    int rc = ps->value ? mf_alloc((void **)&a->m, sizeof(float) * a->floats, "optimiser moments", err) : 0;
    if (rc == 0 && ps->value)
        rc = mf_alloc((void **)&a->v, sizeof(float) * a->floats, "optimiser moments", err);
    if (rc)
        mf_adam_release(a);
    return rc;
}

static void give(struct mf_adam *a, void *device, void *host, size_t floats)
{
    if (device)
        a->engine->device->give(a->engine->dev, device, host, floats);
}

void mf_adam_release(struct mf_adam *a)
{
    give(a, a->on_device.m, a->m, a->floats);
    give(a, a->on_device.v, a->v, a->floats);
    give(a, a->on_device.ema, a->ema, a->floats);
    give(a, a->on_device.step, a->step, MF_STEP_FLOATS);
    free(a->m);
    free(a->v);
    free(a->segment);
    *a = (struct mf_adam){0};
}

void mf_adam_touch(struct mf_adam *a)
{
    a->sent = false;
}

static int send(struct mf_adam *a, float **device, float *host, size_t floats, const char *what, struct mf_err *err)
{
    const struct mf_device *d = a->engine->device;
    if (!*device && !(*device = d->take(a->engine->dev, host, floats, what, err)))
        return err->code;
    return d->put(a->engine->dev, *device, host, floats, err);
}

static int send_steps(struct mf_adam *a, struct mf_err *err)
{
    float *device = (float *)a->on_device.step;
    int rc = send(a, &device, (float *)a->step, MF_STEP_FLOATS, "step counts", err);
    a->on_device.step = (int64_t *)device;
    return rc;
}

int mf_adam_ready(struct mf_adam *a, struct mf_engine *e, struct mf_err *err)
{
    a->engine = e;
    if (a->sent)
        return 0;
    int rc = send(a, &a->on_device.m, a->m, a->floats, "optimiser moments", err);
    if (rc == 0)
        rc = send(a, &a->on_device.v, a->v, a->floats, "optimiser moments", err);
    if (rc == 0 && a->ema)
        rc = send(a, &a->on_device.ema, a->ema, a->floats, "averaged weights", err);
    if (rc == 0)
        rc = send_steps(a, err);
    a->sent = rc == 0;
    return rc;
}

/* ---- of several ranks ---- */

bool mf_adam_spread(const struct mf_adam *a)
{
    return a && mf_ranks_count(a->ranks) > 1;
}

bool mf_adam_leads(const struct mf_adam *a)
{
    return !a || mf_ranks_me(a->ranks) == 0;
}

size_t mf_adam_part(const struct mf_adam *a, size_t at, size_t n, size_t *skip)
{
    const size_t first = mf_between(a->first, at, at + n), end = mf_between(a->first + a->floats, at, at + n);
    *skip = first - at;
    return end - first;
}

int mf_adam_collect(const struct mf_adam *a, const float *of, size_t at, size_t n, float *to, struct mf_err *err)
{
    const int ranks = mf_ranks_count(a->ranks);
    size_t *first = mf_xcalloc((size_t)ranks + 1, sizeof *first), skip, own = mf_adam_part(a, at, n, &skip);
    for (int k = 0; k <= ranks; k++)
        first[k] = mf_between(a->segment[k], at, at + n) - at;
    if (own)
        memcpy(to + skip, of + (at + skip - a->first), own * sizeof *to);
    int rc = mf_ranks_collect(a->ranks, to, sizeof *to, first, err);
    free(first);
    return rc;
}
