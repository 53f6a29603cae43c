#include <stdio.h>

#include "rl/algorithm.h"
#include "rl/proximal.h"

static int open_ppo(struct mf_trainer *t, const struct mf_trainer_opts *o, struct mf_err *err)
{
    struct mf_ppo *ppo = NULL;
    if (t->policy.spec.steer == MF_STEER_SAC)
        return mf_err_set(err, MF_EUSAGE,
                          "policy.steer=sac is for mf-sac, and this is mf-ppo: give mf-collect policy.steer=ppo");
    int rc = mf_ppo_new(&ppo, t->engine, &t->policy, &o->ppo, err);
    t->learner = ppo;
    return rc;
}

static void close_ppo(struct mf_trainer *t)
{
    mf_ppo_free(t->learner);
}

static int memory(struct mf_trainer *t, const struct mf_trainer_opts *o, size_t n, struct mf_memory *to,
                  struct mf_err *err)
{
    mf_ppo_memory(t->learner, n, to);
    if (o->ppo.recompute_logprobs || o->ppo.proximal > 0)
        return mf_proximal_memory(t->engine, &t->policy, n, to, err);
    return 0;
}

static int update(struct mf_trainer *t, struct mf_rows *rows, struct mf_ppo_stats *stats, struct mf_err *err)
{
    return mf_ppo_update(t->learner, rows, stats, err);
}

static int load(struct mf_trainer *t, const struct mf_loaded *l, bool resumes, struct mf_err *err)
{
    if (resumes)
        return mf_optimizer_load(mf_ppo_optimizer(t->learner), l, err);
    mf_optimizer_average_anew(mf_ppo_optimizer(t->learner));
    return 0;
}

static void moments(const struct mf_trainer *t, struct mf_checkpoint *c)
{
    const struct mf_optimizer *o = mf_ppo_optimizer(t->learner);
    c->ema = o->ema;
    c->adam = &o->adam;
}

static int save(struct mf_trainer *t, const char *path, struct mf_checkpoint *c, struct mf_err *err)
{
    char minibatches[32];
    const struct mf_optimizer *o = mf_ppo_optimizer(t->learner);
    const char *extra[][2] = {{o->opts.counter, minibatches}, {"start", t->start}};
    snprintf(minibatches, sizeof minibatches, "%lld", (long long)o->minibatches);
    moments(t, c);
    c->extra = extra;
    c->n_extra = *t->start ? 2 : 1;
    return mf_checkpoint_save(path, c, err);
}

static unsigned needs(const struct mf_trainer *t)
{
    return mf_ppo_needs(t->learner);
}

const struct mf_algorithm mf_algorithm_ppo = {
    .name = "ppo",
    .open = open_ppo,
    .close = close_ppo,
    .memory = memory,
    .needs = needs,
    .update = update,
    .load = load,
    .moments = moments,
    .save = save,
};
