#include "graph/adam.h"

#include <stdlib.h>

#include "base/mem.h"
#include "graph/engine.h"

int mf_adam_init(struct mf_adam *a, const struct mf_params *ps, struct mf_err *err)
{
    void *m, *v;
    *a = (struct mf_adam){.floats = ps->trained, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    if (!ps->value)
        return 0;
    int rc = mf_alloc(&m, sizeof(float) * ps->trained, "optimiser moments", err);
    if (rc)
        return rc;
    rc = mf_alloc(&v, sizeof(float) * ps->trained, "optimiser moments", err);
    if (rc) {
        free(m);
        return rc;
    }
    a->m = m;
    a->v = v;
    return 0;
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
