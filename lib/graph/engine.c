#include "graph/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "dev/plugin.h"
#include "ranks/ranks.h"

static const struct mf_device *built_in(const char *name)
{
    for (int i = 0; mf_devices[i]; i++)
        if (!strcmp(mf_devices[i]->name, name))
            return mf_devices[i];
    return NULL;
}

static int plugged_in(const struct mf_device **device, const char *name, struct mf_err *err)
{
    const size_t sizes[MF_PLUGIN_STRUCTS] = MF_PLUGIN_SIZES;
    const void *table;
    char asked[64];
    snprintf(asked, sizeof asked, "device=%s", name);
    int rc = mf_plugin_find(&table, name, asked, sizes, err);
    *device = rc ? NULL : table;
    return rc;
}

static int no_device(const char *name, struct mf_err *err)
{
    char known[128] = "";
    if (!strcmp(name, "cuda"))
        return mf_err_set(err, MF_EUSAGE,
                          "device=cuda: this installation has no CUDA plugin (mf_cuda.so); build it where nvcc is, or "
                          "take device=cpu");
    for (int i = 0; mf_devices[i]; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", mf_devices[i]->name);
    return mf_err_set(err, MF_EUSAGE, "there is no device '%.40s'; there are %s and cuda", name, known);
}

int mf_engine_on(struct mf_engine **out, const struct mf_device *device, const char *which, int threads,
                 enum mf_precision precision, struct mf_err *err)
{
    struct mf_engine e = {.device = device};
    if (threads < 0 || threads > 1024)
        return mf_err_set(err, MF_EUSAGE, "threads=%d is not in 0..1024", threads);
    int rc = mf_workers_new(&e.workers, threads, err);
    if (rc)
        return rc;
    rc = device->open(&e.dev, which, e.workers, precision, err);
    if (rc) {
        mf_workers_free(e.workers);
        return rc;
    }
    *out = mf_xcalloc(1, sizeof **out);
    **out = e;
    return 0;
}

/* text: a name, or a name, a colon and more. A colon that nothing follows belongs to the name, which is then none. */
int mf_engine_open(struct mf_engine **out, const char *text, int threads, enum mf_precision precision,
                   struct mf_err *err)
{
    size_t n = strcspn(text, ":");
    const char *which = text[n] && text[n + 1] ? text + n + 1 : "";
    char *name = mf_xstrdup(text);
    name[*which ? n : strlen(text)] = '\0';
    const struct mf_device *device = built_in(name);
    int rc = device ? 0 : plugged_in(&device, name, err);
    if (rc == 0)
        rc = device ? mf_engine_on(out, device, which, threads, precision, err) : no_device(name, err);
    free(name);
    return rc;
}

const struct mf_ranks_verbs mf_engine_verbs = {
    .count = mf_ranks_count,
    .me = mf_ranks_me,
    .patience = mf_ranks_patience,
    .broadcast = mf_ranks_broadcast,
    .meet = mf_ranks_meet,
    .await = mf_ranks_await,
    .gather = mf_ranks_gather,
    .agree = mf_ranks_agree,
};

int mf_engine_divide(struct mf_engine *e, int lanes, struct mf_ranks *ranks, struct mf_err *err)
{
    if (ranks && !e->device->divides)
        return mf_err_set(err, MF_EUSAGE,
                          "device=%s: ranks do not divide minibatches on it; start one process, without mpirun",
                          e->device->name);
    e->ranks = ranks;
    e->lanes = lanes;
    return 0;
}

int mf_engine_join(struct mf_engine *e, struct mf_err *err)
{
    const char *how;
    if (mf_ranks_count(e->ranks) == 1 || !e->device->join)
        return 0;
    int rc = e->device->join(e->dev, e->ranks, &mf_engine_verbs, &how, err);
    if (rc == 0)
        mf_log(MF_LOG_INFO, "ranks exchange gradients %s", how);
    return rc;
}

struct mf_ranks *mf_engine_ranks(const struct mf_engine *e)
{
    return e->ranks;
}

void mf_engine_close(struct mf_engine *e)
{
    if (!e)
        return;
    e->device->close(e->dev);
    mf_workers_free(e->workers);
    free(e);
}

void mf_engine_each(struct mf_engine *e, int n, void (*fn)(void *arg, int i), void *arg)
{
    mf_workers_each(e->workers, n, fn, arg);
}

void mf_engine_log(const struct mf_engine *e)
{
    if (e->device->own_memory)
        mf_log(MF_LOG_INFO, "computes on %s", e->device->describe(e->dev));
}

void mf_engine_memory(const struct mf_engine *e, double floats, struct mf_memory *to)
{
    struct mf_device_usage u;
    if (!e->device->own_memory)
        return;
    to->on_device += floats * sizeof(float);
    if (!e->device->usage(e->dev, &u))
        return;
    to->device_total = u.total;
    to->device_left = u.total - u.used;
}

bool mf_engine_usage(const struct mf_engine *e, struct mf_device_usage *u)
{
    return e->device->usage(e->dev, u);
}

bool mf_engine_in_host(const struct mf_engine *e)
{
    return !e->device->own_memory;
}

int mf_engine_ahead(const struct mf_engine *e)
{
    return e->device->ahead;
}

int mf_engine_hold(struct mf_engine *e, const float *base, size_t floats, struct mf_err *err)
{
    return e->device->hold(e->dev, base, floats, err);
}

void mf_engine_let_go(struct mf_engine *e, const float *base)
{
    e->device->let_go(e->dev, base);
}

/* ---- weights ---- */

static struct mf_mirror *find_mirror(const struct mf_engine *e, const float *host)
{
    struct mf_mirror *m = e->mirrors;
    while (m && m->host != host)
        m = m->next;
    return m;
}

struct mf_mirror *mf_engine_mirror(struct mf_engine *e, float *host, size_t floats, struct mf_err *err)
{
    struct mf_mirror *m = find_mirror(e, host);
    if (!m) {
        float *device = e->device->take(e->dev, host, floats, "weights", err);
        if (!device)
            return NULL;
        m = mf_xcalloc(1, sizeof *m);
        *m = (struct mf_mirror){
            .host = host, .device = device, .floats = floats, .version = UINT64_MAX, .next = e->mirrors};
        e->mirrors = m;
    }
    m->users++;
    return m;
}

void mf_engine_unmirror(struct mf_engine *e, struct mf_mirror *m)
{
    if (!m || --m->users > 0)
        return;
    struct mf_mirror **at = &e->mirrors;
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    e->device->give(e->dev, m->device, m->host, m->floats);
    free(m);
}

int mf_mirror_update(struct mf_engine *e, struct mf_mirror *m, const struct mf_params *ps, struct mf_err *err)
{
    if (m->version == ps->version)
        return 0;
    int rc = e->device->put(e->dev, m->device, ps->value, ps->size, err);
    if (rc)
        return rc;
    m->version = ps->version;
    m->ahead = false;
    return 0;
}

/* a's average of parameter p, as far as this rank has it. */
static int copy_average(struct mf_engine *e, float *weights, const struct mf_param *p, const struct mf_adam *a,
                        struct mf_err *err)
{
    size_t skip, n = mf_adam_part(a, p->at, (size_t)p->rows * (size_t)p->cols, &skip);
    const size_t at = p->at + skip;
    return n ? e->device->copy(e->dev, weights + at, a->on_device.ema + (at - a->first), n, err) : 0;
}

int mf_weights_copy(struct mf_engine *e, struct mf_params *to, const struct mf_params *from, struct mf_adam *a,
                    unsigned averaged, struct mf_err *err)
{
    struct mf_mirror *source = find_mirror(e, from->value), *target = find_mirror(e, to->value);
    int rc = mf_mirror_update(e, source, from, err);
    if (rc || (a && (rc = mf_adam_ready(a, e, err))))
        return rc;
    target->version = UINT64_MAX; /* until all of it has arrived */
    rc = e->device->copy(e->dev, target->device, source->device, from->size, err);
    for (int i = 0; rc == 0 && a && i < to->n; i++)
        if ((averaged >> to->p[i].group & 1) && mf_param_trained(to, i))
            rc = copy_average(e, target->device, &to->p[i], a, err);
    if (rc == 0 && a && mf_engine_in_host(e)) /* elsewhere each has all of it */
        rc = mf_ranks_gather(a->ranks, target->device, sizeof *target->device, a->segment, err);
    if (rc)
        return rc;
    mf_params_touch(to);
    target->version = to->version;
    target->ahead = true;
    return 0;
}

static int settle_weights(struct mf_engine *e, struct mf_mirror *m, struct mf_err *err)
{
    if (!m || !m->ahead)
        return 0;
    int rc = e->device->get(e->dev, m->host, m->device, m->floats, err);
    m->ahead = rc != 0;
    return rc;
}

static int settle_adam(struct mf_engine *e, struct mf_adam *a, struct mf_err *err)
{
    const struct mf_adam_state *d = &a->on_device;
    int rc;
    if (!a->ahead)
        return 0;
    if ((rc = e->device->get(e->dev, a->m, d->m, a->floats, err)) ||
        (rc = e->device->get(e->dev, a->v, d->v, a->floats, err)) ||
        (a->ema && (rc = e->device->get(e->dev, a->ema, d->ema, a->floats, err))) ||
        (rc = e->device->get(e->dev, (float *)a->step, (const float *)d->step, MF_STEP_FLOATS, err)))
        return rc;
    a->ahead = false;
    return 0;
}

int mf_engine_settle(struct mf_engine *e, const struct mf_params *ps, struct mf_adam *a, struct mf_err *err)
{
    int rc = settle_weights(e, find_mirror(e, ps->value), err);
    return rc || !a ? rc : settle_adam(e, a, err);
}
