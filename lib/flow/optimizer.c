#include "flow/optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "flow/checkpoint.h"

int mf_optimizer_init(struct mf_optimizer *o, struct mf_engine *e, struct mf_params *ps,
                      const struct mf_optimizer_opts *opts, struct mf_err *err)
{
    *o = (struct mf_optimizer){.opts = *opts, .engine = e, .params = ps};
    int rc = mf_adam_init(&o->adam, e, ps, err);
    o->adam.weight_decay = opts->weight_decay;
    if (rc == 0 && opts->average && ps->value)
        rc = mf_alloc((void **)&o->ema, o->adam.floats * sizeof *o->ema, "averaged weights", err);
    o->adam.ema = o->ema;
    if (rc == 0)
        mf_optimizer_average_anew(o);
    return rc;
}

void mf_optimizer_release(struct mf_optimizer *o)
{
    mf_adam_release(&o->adam);
    free(o->ema);
    *o = (struct mf_optimizer){.ema = NULL};
}

void mf_optimizer_memory(const struct mf_optimizer *o, struct mf_memory *to)
{
    const size_t floats = (o->opts.average ? 3 : 2) * o->adam.floats; /* m, v, ema */
    to->of[MF_MEMORY_WEIGHTS] += (double)(floats * sizeof(float));
    mf_engine_memory(o->engine, (double)(floats + o->params->size), to); /* and the weights */
}

void mf_optimizer_average_anew(struct mf_optimizer *o)
{
    if (o->ema)
        memcpy(o->ema, o->params->value + o->adam.first, o->adam.floats * sizeof *o->ema);
    mf_adam_touch(&o->adam);
}

int mf_optimizer_load(struct mf_optimizer *o, const struct mf_loaded *l, struct mf_err *err)
{
    mf_adam_touch(&o->adam);
    int rc = mf_loaded_adam(l, o->params, &o->adam, err);
    if (rc == 0 && o->ema)
        rc = mf_loaded_ema(l, o->params, &o->adam, err);
    return rc ? rc : mf_loaded_count(l, o->opts.counter, &o->minibatches, err);
}

/* ---- a minibatch ---- */

int mf_optimizer_start(struct mf_optimizer *o, struct mf_plan *plan, const struct mf_batch *batch,
                       const struct mf_step *step, struct mf_verdict *v, struct mf_err *err)
{
    struct mf_step s = *step;
    s.averaged = MF_AVERAGED;
    return mf_plan_start(plan, batch, &s, &o->adam, v, err);
}

int mf_optimizer_finish(struct mf_optimizer *o, struct mf_plan *plan, const struct mf_verdict *v, struct mf_err *err)
{
    int rc = mf_plan_finish(plan, err);
    if (rc || v->vetoed)
        return rc;
    o->minibatches++;
    o->skipped = v->finite ? 0 : o->skipped + 1;
    if (o->skipped < o->opts.patience)
        return 0;
    return mf_err_set(err, MF_EMATH, "the gradient is not finite at minibatch %lld, %d in a row: lower %s",
                      (long long)o->minibatches - 1, o->skipped, o->opts.rate);
}

int mf_optimizer_learn(struct mf_optimizer *o, struct mf_plan *plan, const struct mf_batch *batch,
                       const struct mf_step *step, struct mf_verdict *v, struct mf_err *err)
{
    struct mf_step s = *step;
    s.first = true;
    int rc = mf_optimizer_start(o, plan, batch, &s, v, err);
    return rc ? rc : mf_optimizer_finish(o, plan, v, err);
}

int mf_optimizer_settle(struct mf_optimizer *o, struct mf_err *err)
{
    return mf_engine_settle(o->engine, o->params, &o->adam, err);
}

/* ---- schedules ---- */

double mf_lr_factor(enum mf_lr_schedule how, double done, double all)
{
    switch (how) {
    case MF_LR_LINEAR:
        return 1 - done / all;
    case MF_LR_COSINE:
        return 0.5 * (1 + cos(3.14159265358979323846 * done / all));
    default:
        return 1;
    }
}

double mf_ema_decay(int64_t step, double inv_gamma, double power, double max)
{
    double decay = 1 - pow(1 + (double)step / inv_gamma, -power);
    return decay < 0 ? 0 : decay > max ? max : decay;
}
