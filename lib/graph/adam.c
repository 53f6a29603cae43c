#include "graph/adam.h"

#include <stdlib.h>

#include "base/mem.h"
#include "graph/engine.h"

int mf_adam_init(struct mf_adam *a, const struct mf_params *ps, struct mf_err *err)
{
    void *m, *v;
    *a = (struct mf_adam){.floats = ps->size, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    if (!ps->value)
        return 0;
    int rc = mf_alloc(&m, sizeof(float) * ps->size, "optimiser moments", err);
    if (rc)
        return rc;
    rc = mf_alloc(&v, sizeof(float) * ps->size, "optimiser moments", err);
    if (rc) {
        free(m);
        return rc;
    }
    a->m = m;
    a->v = v;
    return 0;
}

static void give(struct mf_adam *a, float *device, float *host)
{
    if (device)
        a->engine->device->give(a->engine->dev, device, host, a->floats);
}

void mf_adam_release(struct mf_adam *a)
{
    give(a, a->on_device.m, a->m);
    give(a, a->on_device.v, a->v);
    give(a, a->on_device.ema, a->ema);
    free(a->m);
    free(a->v);
    *a = (struct mf_adam){0};
}

void mf_adam_touch(struct mf_adam *a)
{
    a->sent = false;
}

static int send(struct mf_adam *a, float **device, float *host, const char *what, struct mf_err *err)
{
    const struct mf_device *d = a->engine->device;
    if (!*device && !(*device = d->take(a->engine->dev, host, a->floats, what, err)))
        return err->code;
    return d->put(a->engine->dev, *device, host, a->floats, err);
}

int mf_adam_ready(struct mf_adam *a, struct mf_engine *e, struct mf_err *err)
{
    a->engine = e;
    a->on_device.step = a->step;
    if (a->sent)
        return 0;
    int rc = send(a, &a->on_device.m, a->m, "optimiser moments", err);
    if (rc == 0)
        rc = send(a, &a->on_device.v, a->v, "optimiser moments", err);
    if (rc == 0 && a->ema)
        rc = send(a, &a->on_device.ema, a->ema, "averaged weights", err);
    a->sent = rc == 0;
    return rc;
}
