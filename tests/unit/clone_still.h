/* clone_still.h - a batch's cloning loss and gradients, by an optimiser that takes no step. */
#ifndef MF_CLONE_STILL_H
#define MF_CLONE_STILL_H

#include <string.h>

#include "flow/cloner.h"
#include "policies.h"

/* ema: the teacher's, or NULL. *grads are the cloner's. */
static inline int clone_still(struct mf_engine *engine, struct mf_cloner *m, struct mf_policy *p,
                              const struct mf_clone_batch *b, const float *ema, double *loss, const float **grads,
                              struct mf_err *err)
{
    struct mf_optimizer o;
    struct mf_verdict v;
    must(mf_optimizer_init(&o, engine, &p->params, &(struct mf_optimizer_opts){.average = ema, .patience = 1}, err),
         err);
    if (ema)
        memcpy(o.ema, ema, p->params.size * sizeof *ema);
    int rc = mf_cloner_run(m, b, &o, &(struct mf_step){.ema_decay = 1}, loss, &v, err);
    *grads = mf_cloner_grads(m);
    mf_optimizer_release(&o);
    return rc;
}

#endif
