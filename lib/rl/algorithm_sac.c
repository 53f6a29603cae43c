#include <math.h>
#include <stdio.h>
#include <string.h>

#include "rl/algorithm.h"
#include "rl/sac.h"
#include "run/runs.h"

/* RUN/checkpoints/NNNNNN.safetensors -> RUN/replay */
static void folder_of(char folder[MF_PATH_MAX], const char *checkpoint)
{
    snprintf(folder, MF_PATH_MAX, "%.1000s", checkpoint);
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(folder, '/');
        *(slash ? slash : folder) = 0;
    }
    const size_t n = strlen(folder);
    snprintf(folder + n, MF_PATH_MAX - n, "/replay");
}

static void set_noise(struct mf_trainer *t)
{
    const double explores = mf_sac_explores(t->learner);
    mf_policy_set_noise(&t->policy, explores, explores);
}

static int open_sac(struct mf_trainer *t, const struct mf_trainer_opts *o, struct mf_err *err)
{
    struct mf_sac_opts sac = o->sac;
    struct mf_sac *s = NULL;
    if (t->policy.spec.steer != MF_STEER_SAC)
        return mf_err_set(err, MF_EUSAGE,
                          "mf-sac trains the latent actor of policy.steer=sac: give that to mf-collect");
    sac.seed = o->ppo.seed;
    sac.save_every = o->save_every;
    int rc = mf_sac_new(&s, t->engine, &t->policy, &sac, err);
    t->learner = s;
    if (rc == 0)
        set_noise(t);
    return rc;
}

static void close_sac(struct mf_trainer *t)
{
    mf_sac_free(t->learner);
}

static int memory(struct mf_trainer *t, const struct mf_trainer_opts *o, size_t n, struct mf_memory *to,
                  struct mf_err *err)
{
    (void)o, (void)err;
    mf_sac_memory(t->learner, n, to);
    return 0;
}

/* Its statistics under the tags that PPO's have, too. */
static int update(struct mf_trainer *t, struct mf_rows *rows, struct mf_ppo_stats *stats, struct mf_err *err)
{
    int rc = mf_sac_update(t->learner, rows, err);
    const struct mf_sac_stats *st = mf_sac_stats(t->learner);
    *stats = mf_ppo_stats_none();
    stats->policy_loss = st->actor_loss;
    stats->value_loss = st->critic_loss;
    stats->entropy = -st->log_pi;
    stats->grad_norm = st->actor_grad_norm;
    stats->minibatches = st->steps;
    stats->learning_rate = st->learning_rate;
    if (rc == 0)
        set_noise(t);
    return rc;
}

static void report(const struct mf_trainer *t, struct mf_frame *m)
{
    const struct mf_sac_stats *st = mf_sac_stats(t->learner);
    const struct {
        const char *name;
        double value;
    } row[] = {{"values.train/q", st->q},
               {"values.train/alpha", st->alpha},
               {"values.train/distill_loss", st->distill_loss},
               {"values.train/replay", (double)st->replay}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (isfinite(row[i].value))
            mf_frame_set_num(m, row[i].name, row[i].value);
}

static int load(struct mf_trainer *t, const struct mf_loaded *l, bool resumes, struct mf_err *err)
{
    char folder[MF_PATH_MAX];
    int rc = 0;
    folder_of(folder, mf_loaded_path(l));
    if (resumes)
        rc = mf_sac_load(t->learner, folder, t->policy.version, err);
    else
        mf_sac_start(t->learner);
    set_noise(t);
    return rc;
}

static int keep(struct mf_trainer *t, const char *path, struct mf_err *err)
{
    char folder[MF_PATH_MAX];
    folder_of(folder, path);
    return mf_sac_keep(t->learner, folder, t->policy.version, err);
}

/* The state comes first: a checkpoint is never without it. */
static int save(struct mf_trainer *t, const char *path, struct mf_checkpoint *c, struct mf_err *err)
{
    char folder[MF_PATH_MAX];
    const char *extra[][2] = {{"start", t->start}};
    c->extra = extra;
    c->n_extra = *t->start ? 1 : 0;
    folder_of(folder, path);
    int rc = mf_sac_save(t->learner, folder, t->policy.version, err);
    return rc ? rc : mf_checkpoint_save(path, c, err);
}

const struct mf_algorithm mf_algorithm_sac = {
    .name = "sac",
    .open = open_sac,
    .close = close_sac,
    .memory = memory,
    .update = update,
    .report = report,
    .load = load,
    .keep = keep,
    .save = save,
};
