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
    int rc = mf_adam_init(&o->adam, ps, err);
    o->adam.weight_decay = opts->weight_decay;
    if (rc == 0 && opts->average && ps->value)
        rc = mf_alloc((void **)&o->ema, ps->size * sizeof *o->ema, "averaged weights", err);
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
    const int arrays = o->opts.average ? 3 : 2; /* m, v, ema */
    to->of[MF_MEMORY_WEIGHTS] += (double)(arrays * o->params->size * sizeof(float));
}

void mf_optimizer_average_anew(struct mf_optimizer *o)
{
    if (o->ema)
        memcpy(o->ema, o->params->value, o->params->size * sizeof *o->ema);
}

int mf_optimizer_load(struct mf_optimizer *o, const struct mf_loaded *l, struct mf_err *err)
{
    int rc = mf_loaded_adam(l, o->params, &o->adam, err);
    if (rc == 0 && o->ema)
        rc = mf_loaded_ema(l, o->params, o->ema, err);
    return rc ? rc : mf_loaded_count(l, o->opts.counter, &o->minibatches, err);
}

/* ---- a minibatch ---- */

static void descend(struct mf_optimizer *o, const float *grads, const struct mf_step *s, struct mf_verdict *v)
{
    double norm[MF_GROUPS + 1], scale[MF_GROUPS];
    mf_grad_norms(o->engine, o->params, grads, norm);
    memcpy(v->norm, norm, sizeof v->norm);
    v->total = norm[MF_GROUPS];
    v->finite = isfinite(v->total);
    if (!v->finite)
        return;
    for (int g = 0; g < MF_GROUPS; g++) {
        const double of = s->separate ? v->norm[g] : v->total;
        scale[g] = s->max_norm > 0 && of > s->max_norm ? s->max_norm / of : 1;
    }
    mf_adam_step(o->engine, &o->adam, o->params, grads, s->lr, scale);
    for (int g = 0; o->ema && g < MF_GROUPS; g++)
        if (mf_is_averaged((enum mf_group)g))
            mf_ema_step(o->engine, o->params, (enum mf_group)g, o->ema, s->ema_decay);
}

int mf_optimizer_step(struct mf_optimizer *o, const float *grads, const struct mf_step *s, struct mf_verdict *v,
                      struct mf_err *err)
{
    descend(o, grads, s, v);
    o->minibatches++;
    o->skipped = v->finite ? 0 : o->skipped + 1;
    if (o->skipped < o->opts.patience)
        return 0;
    return mf_err_set(err, MF_EMATH, "the gradient is not finite at minibatch %lld, %d in a row: lower %s",
                      (long long)o->minibatches - 1, o->skipped, o->opts.rate);
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
