/* learner_open.c - how a learner begins: the run's folder, the policy that the head and the keys agree on, the address
 * where collectors get it. */
#include <stdio.h>

#include "base/clock.h"
#include "flow/frames.h"
#include "learn/learner_priv.h"
#include "ranks/ranks.h"
#include "stream/frame.h"

/* Several ranks have computed the same policy. */
int mf_learner_compare(const struct mf_learner *q, struct mf_err *err)
{
    return mf_ranks_compare(q->opts.ranks, q->trainer.digest, sizeof q->trainer.digest, "the policy", err);
}

/* Each collector's state is stored with the policy: a restarted collector gets both. */
int mf_learner_publish(struct mf_learner *q, struct mf_err *err)
{
    const struct mf_trainer *t = &q->trainer;
    void **part;
    size_t *size;
    int n, rc = 0;
    if (!q->edge)
        return 0;
    for (int i = 0; rc == 0 && i < t->n_states; i++)
        rc = mf_edge_give_state(q->edge, t->states[i].src, t->states[i].bytes, t->states[i].size, err);
    if (rc || (rc = mf_policy_encode(&t->policy, t->spares, &part, &size, &n, err)))
        return rc;
    rc = mf_edge_publish(q->edge, t->policy.version, n, (const void *const *)part, size, err);
    mf_policy_drop(part, size, n);
    return rc;
}

/* Settings of the collectors apply here, too, unless set here. */
static int inherit(const struct mf_run *run, struct mf_learner *q, struct mf_err *err)
{
    const struct {
        const char *key, *field;
        int64_t *to;
    } row[] = {{"collect.max_lag", "max_lag", &q->opts.max_lag},
               {"run.seed", "seed", &q->opts.ppo.seed},
               {"training.num_envs", "num_envs", &q->num_envs},
               {"training.num_steps_per_rollout", "steps", &q->steps}};
    const struct {
        const char *field, **to;
    } text[] = {{"spec.env", &q->from.env}, {"checkpoint", &q->from.checkpoint}, {"policy.frozen", &q->opts.frozen}};
    int rc = 0;
    for (int i = 0; i < 4 && rc == 0; i++)
        if (!mf_conf_was_set(mf_run_conf(run), row[i].key) && mf_frame_has(q->head, row[i].field))
            rc = mf_frame_get_int(q->head, row[i].field, row[i].to, err);
    for (int i = 0; i < 3 && rc == 0; i++)
        if (mf_frame_has(q->head, text[i].field))
            rc = mf_frame_get_str(q->head, text[i].field, text[i].to, err);
    return rc ? rc : mf_policy_head_encoded(q->head, mf_run_conf(run), &q->opts.encoded, err);
}

/* Assumes rounds of the size in the head, from every source. */
static int say_memory(const struct mf_learner *q, const struct mf_policy_spec *spec, struct mf_err *err)
{
    const bool serves = q->work.live || q->address;
    struct mf_memory m = {
        .keys = {[MF_MEMORY_ACTIVATIONS] = "threads",
                 [MF_MEMORY_ROWS] = "training.num_envs, training.num_steps_per_rollout and training.batch_size"}};
    int rc = mf_trainer_memory(spec, &q->opts, (size_t)(q->num_envs * q->steps * q->sources),
                               serves ? (int)q->opts.max_lag + 2 : 0, &m, err);
    return rc ? rc : mf_memory_say(&m, NULL, err);
}

/* Another initial checkpoint is another run, unless forced. */
static int hold_start(struct mf_learner *q, const struct mf_start *s, struct mf_err *err)
{
    const char *named = q->checkpoint ? q->checkpoint : q->from.checkpoint;
    struct mf_err ignored;
    if (!s->resumes || !named || q->run.force)
        return 0;
    struct mf_conf *was = mf_conf_new();
    char program[32];
    snprintf(program, sizeof program, "mf-%s", q->opts.algorithm->name);
    const bool known = mf_conf_recorded(was, q->work.path, program, &ignored) == 0;
    int rc = mf_trainer_began(&q->trainer, q->work.path, s->path, named,
                              known ? mf_conf_text(was, "policy.checkpoint") : NULL, (enum mf_weights)q->weights, err);
    mf_conf_free(was);
    return rc;
}

/* Records values in the run's folder that only the head has. */
static void assume(struct mf_run *run, struct mf_learner *q)
{
    const struct mf_conf *c = mf_run_conf(run);
    if (!mf_conf_was_set(c, "env.name") && q->from.env && *q->from.env)
        mf_run_assume(run, "env.name", q->from.env);
    if (!q->checkpoint && q->from.checkpoint)
        q->checkpoint = mf_run_assume(run, "policy.checkpoint", q->from.checkpoint);
}

/* A collector ahead of the first version would wait forever. */
static int open_policy(struct mf_run *run, struct mf_learner *q, const struct mf_frame *head, struct mf_err *err)
{
    struct mf_policy_spec spec;
    struct mf_start start;
    struct mf_trainer *t = &q->trainer;
    int rc = mf_policy_spec_from_head(&spec, head, err);
    if (rc || (rc = mf_workdir_start(&q->work, head, q->run.resume, q->checkpoint, &start, err)) ||
        (rc = mf_run_join(run, q->work.path, start.resumes, err)) ||
        (rc = mf_policy_spec_holds(&spec, mf_run_conf(run), err)))
        return rc;
    q->opts.from = start.from;
    q->opts.which = start.resumes ? MF_WEIGHTS_RAW : (enum mf_weights)q->weights;
    if ((rc = say_memory(q, &spec, err)) || (rc = mf_trainer_open(t, &spec, &q->opts, err)) ||
        (rc = hold_start(q, &start, err)))
        return rc;
    q->opts.from = NULL;
    assume(run, q);
    if (mf_run_leads(run))
        mf_saves_say(&q->saves, &q->trainer);
    if (start.from && (rc = mf_trainer_load(t, start.from, start.resumes, (enum mf_weights)q->weights, err)))
        return rc;
    if (q->work.live && start.due > t->policy.iter)
        return mf_err_set(err, MF_EUSAGE,
                          "the collector continues at iteration %lld, but mf-%s would start at %lld; give it "
                          "run.resume=auto, and the collector's run.dir or none",
                          (long long)start.due, q->opts.algorithm->name, (long long)t->policy.iter);
    if (start.from)
        mf_log(MF_LOG_INFO, "%s %s (%s weights) at iteration %lld", start.resumes ? "resuming" : "starting from",
               start.from, t->from_ema ? "averaged" : "raw", (long long)t->policy.iter);
    return 0;
}

/* Collectors connect to the given address, or to the one in the head if its run is in progress. */
static int serve(const struct mf_run *run, struct mf_learner *q, const struct mf_frame *head, struct mf_err *err)
{
    const char *address = q->address;
    struct mf_err ignored;
    if (!address && (!q->work.live || mf_frame_get_str(head, "policy_address", &address, &ignored)))
        return 0;
    int rc = mf_edge_serve(&q->edge, address, mf_run_wire(run), (int)q->opts.max_lag + 2, err);
    return rc ? rc : mf_learner_publish(q, err);
}

/* All ranks know the folder; rank 0 locks and writes it. */
static int open_folder(struct mf_run *run, struct mf_learner *q, const struct mf_frame *head, struct mf_err *err)
{
    const bool leads = mf_run_leads(run);
    int rc = leads ? mf_workdir_open(&q->work, head, &q->run, mf_run_is_saved(run), q->address != NULL, err) : 0;
    if (rc == 0)
        rc = mf_run_share(run, q->work.path, sizeof q->work.path, err);
    if (rc == 0 && q->work.own && !q->address)
        mf_log(MF_LOG_INFO, "writing to %s, not to the stream's run", q->work.path);
    return rc;
}

/* The run is accepted: its collectors, its folder and the readers of its metrics hear of it. */
static int announce(struct mf_run *run, struct mf_learner *q, struct mf_frame *head, struct mf_err *err)
{
    int rc = serve(run, q, head, err);
    if (rc)
        return rc;
    if (q->work.own) {
        mf_rundir_accepted(&q->work.mine);
        mf_frame_set_str(head, "run", q->work.path); /* the run of these metrics, for their readers */
    }
    mf_run_accepted(run);
    mf_run_sign(run, head);
    if ((rc = mf_journal_open(&q->journal, q->work.path, head, q->trainer.policy.iter, err)))
        return rc;
    q->waited_since = q->shown_at = mf_now();
    q->begun = q->waited_since - mf_journal_spent(q->journal);
    q->worked_until = mf_now_cpu();
    return mf_emit(run, head, err);
}

int mf_learner_begin(struct mf_run *run, struct mf_learner *q, struct mf_frame *head, struct mf_err *err)
{
    q->head = mf_frame_keep(head);
    q->saves.every = q->opts.save_every;
    q->saves.leads = mf_run_leads(run);
    q->opts.ranks = mf_run_ranks(run);
    if (q->required > q->sources)
        return mf_err_set(err, MF_EUSAGE, "collect.required=%lld is more than collect.sources=%lld",
                          (long long)q->required, (long long)q->sources);
    int rc = inherit(run, q, err);
    if (rc || (rc = open_folder(run, q, head, err)) || (rc = open_policy(run, q, head, err)) ||
        (rc = mf_ranks_await(q->opts.ranks, err)) || (rc = mf_learner_compare(q, err)))
        return rc;
    q->rounds = mf_rounds_new((int)q->opts.max_lag, (int)q->sources);
    return mf_run_leads(run) ? announce(run, q, head, err) : 0;
}
