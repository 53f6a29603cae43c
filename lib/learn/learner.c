#include "learn/learner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "flow/frames.h"
#include "flow/usage.h"
#include "ranks/ranks.h"
#include "rl/report.h"
#include "run/runs.h"
#include "stage/waits.h"
#include "stream/frame.h"

const struct mf_bind mf_learner_binds[] = {
    {"policy.checkpoint", offsetof(struct mf_learner, checkpoint)},
    {"policy.weights", offsetof(struct mf_learner, weights)},
    {"policy.obs_keys", MF_BIND_NONE},
    {"training.num_envs", offsetof(struct mf_learner, num_envs)},
    {"training.num_steps_per_rollout", offsetof(struct mf_learner, steps)},
    {"training.save_interval", offsetof(struct mf_learner, saves.interval)},
    {"training.keep_checkpoints", offsetof(struct mf_learner, saves.keep)},
    {"training.log_interval", offsetof(struct mf_learner, log_interval)},
    {"collect.sources", offsetof(struct mf_learner, sources)},
    {"collect.required", offsetof(struct mf_learner, required)},
    {"collect.policy_address", offsetof(struct mf_learner, address)},
    {"log.progress", offsetof(struct mf_learner, progress)},
    {0},
};

/* Several ranks have computed the same policy. */
static int compare(const struct mf_learner *q, struct mf_err *err)
{
    return mf_ranks_compare(q->opts.ranks, q->trainer.digest, sizeof q->trainer.digest, "the policy", err);
}

/* ---- out: the edge, metrics ---- */

/* Each collector's state is stored with the policy: a restarted collector gets both. */
static int publish(struct mf_learner *q, struct mf_err *err)
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

static int report(struct mf_run *run, struct mf_learner *q, const struct mf_report *r, struct mf_err *err)
{
    FILE *const table = mf_run_on_terminal(run) ? stdout : q->progress && isatty(STDERR_FILENO) ? stderr : NULL;
    struct mf_frame *m = mf_report_frame(r);
    if (q->opts.algorithm->report && r->steps > 0)
        q->opts.algorithm->report(&q->trainer, m);
    mf_usage_report(q->trainer.engine, m);
    if (q->work.live)
        mf_waits_report(q->head, m);
    mf_report_show(m, table, q->progress, &q->shown_at);
    int rc = mf_journal_put(q->journal, m, err);
    if (rc == 0 && q->trainer.policy.iter % q->log_interval == 0)
        rc = mf_emit(run, m, err);
    if (q->trainer.policy.saved == q->trainer.policy.version)
        mf_rundir_note(q->work.path, q->trainer.policy.version, m, q->head);
    mf_frame_free(q->metrics);
    q->metrics = m;
    return rc;
}

/* ---- in: head, slices, rounds ---- */

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
    return rc ? rc : publish(q, err);
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

static int begin(struct mf_run *run, struct mf_learner *q, struct mf_frame *head, struct mf_err *err)
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
        (rc = mf_ranks_await(q->opts.ranks, err)) || (rc = compare(q, err)))
        return rc;
    q->rounds = mf_rounds_new((int)q->opts.max_lag, (int)q->sources);
    return mf_run_leads(run) ? announce(run, q, head, err) : 0;
}

/* A new source, or one that starts over. */
static int take_head(struct mf_run *run, struct mf_learner *q, struct mf_frame *head, struct mf_err *err)
{
    const char *src = "";
    int rc = q->head ? 0 : begin(run, q, head, err);
    if (rc || (mf_frame_has(head, "src") && (rc = mf_frame_get_str(head, "src", &src, err))))
        return rc;
    mf_missing_back(&q->missing, src);
    int missing = mf_rounds_join(q->rounds, src);
    if (missing)
        mf_log(MF_LOG_INFO, "source '%s' connected, waiting for %d more of collect.sources=%lld", src, missing,
               (long long)q->sources);
    return q->edge ? mf_edge_admit(q->edge, src, true, err) : 0;
}

/* The round is consumed: next version. One that is due is saved before it is served, as collectors forget the rounds
 * before it. */
static int advance(const struct mf_run *run, struct mf_learner *q, const struct mf_round_part *parts, int n,
                   int64_t steps, struct mf_err *err)
{
    int rc = mf_trainer_next(&q->trainer, parts, n, steps, err);
    if (rc == 0 && (rc = compare(q, err)))
        q->trainer.torn = true;
    rc = rc ? rc : mf_saves_next(&q->saves, &q->trainer, &q->work, err);
    return rc || !mf_run_leads(run) ? rc : publish(q, err);
}

/* If one of several parts is invalid, its source is rejected, and the round is used without it. */
static int blame(struct mf_run *run, const struct mf_learner *q, const struct mf_round_part *parts, int n,
                 struct mf_err *err)
{
    int64_t T = 0; /* if the head has none */
    struct mf_err ignored;
    (void)mf_frame_get_int(q->head, "steps", &T, &ignored);
    int i = n > 1 ? mf_trainer_culprit(&q->trainer, parts, n, (size_t)T, err) : -1;
    if (i < 0)
        return err->code;
    mf_run_blame(run, parts[i].src);
    return err->code = MF_EFORMAT;
}

static int take_round(struct mf_run *run, struct mf_learner *q, const struct mf_round_part *parts, int n,
                      struct mf_err *err)
{
    const struct mf_policy *p = &q->trainer.policy;
    struct mf_ppo_stats stats;
    struct mf_health health;
    int64_t steps;
    double start = mf_now(), noise = p->spec.noise_method == MF_FLOW_ODE ? NAN : p->noise_high;
    mf_stop_defer(p->saved < p->version); /* SIGTERM is to save versions, which cannot be done within a round */
    int rc = mf_trainer_learn(&q->trainer, parts, n, &stats, &health, &steps, err);
    mf_stop_defer(false);
    if (rc)
        return rc == MF_EFORMAT || rc == MF_EUSAGE ? blame(run, q, parts, n, err) : rc;
    if ((rc = advance(run, q, parts, n, steps, err)) || !mf_run_leads(run))
        return rc;
    struct mf_report r = {.iter = p->iter - 1,
                          .step = p->global_step,
                          .time = mf_now() - q->begun,
                          .update_time = mf_now() - start,
                          .round_time = mf_now() - q->waited_since,
                          .cpu_time = mf_now_cpu() - q->worked_until,
                          .steps = steps,
                          .dropped = q->trainer.stale.dropped,
                          .noise = noise,
                          .parts = parts,
                          .n_parts = n,
                          .stats = &stats,
                          .health = &health};
    q->waited_since = mf_now();
    q->worked_until = mf_now_cpu();
    return report(run, q, &r, err);
}

/* A new part, or a lost source, may complete the round. */
static int take_rounds(struct mf_run *run, struct mf_learner *q, struct mf_err *err)
{
    int rc = 0;
    for (int64_t iter = q->trainer.policy.iter; rc == 0 && mf_rounds_whole(q->rounds, iter); iter++) {
        int n;
        struct mf_round_part *parts = mf_rounds_parts(q->rounds, iter, &n);
        rc = mf_missing_round(&q->missing, iter, n, q->required, err);
        rc = rc ? rc : take_round(run, q, parts, n, err);
        free(parts);
        if (rc == 0)
            mf_rounds_drop(q->rounds, iter);
        rc = rc ? rc : mf_stop_check(err); /* deferred, and in all ranks alike */
    }
    return rc;
}

int mf_learner_frame(struct mf_run *run, void *self, struct mf_frame *f, struct mf_err *err)
{
    struct mf_learner *q = self;
    int rc;
    switch (mf_frame_kind(f)) {
    case MF_HEAD:
        return take_head(run, q, f, err);
    case MF_ROLLOUT:
        return mf_rounds_add(q->rounds, f, q->trainer.policy.iter, err);
    case MF_ROUND:
        rc = mf_rounds_add(q->rounds, f, q->trainer.policy.iter, err);
        return rc ? rc : take_rounds(run, q, err);
    default:
        return 0;
    }
}

/* A source has ended; its incomplete rounds continue without it. */
int mf_learner_ended(struct mf_run *run, void *self, const struct mf_frame *end, struct mf_err *err)
{
    struct mf_learner *q = self;
    const char *src, *why = NULL;
    int rc = mf_frame_get_str(end, "src", &src, err);
    if (rc || (mf_frame_has(end, "why") && (rc = mf_frame_get_str(end, "why", &why, err))))
        return rc;
    int parts = 0;
    if (why)
        mf_rounds_refuse(q->rounds, src);
    else
        parts = mf_rounds_leave(q->rounds, src);
    if (why || mf_frame_has(end, "lost"))
        mf_missing_left(&q->missing, src, q->trainer.policy.iter + parts);
    if (q->edge && (rc = why ? mf_edge_refuse(q->edge, src, why, err) : mf_edge_admit(q->edge, src, false, err)))
        return rc;
    return take_rounds(run, q, err);
}

static void sum_up(const struct mf_learner *q)
{
    mf_log_live("%s", "");
    if (q->trainer.policy.version == 0)
        mf_log(MF_LOG_INFO, "the stream had no complete round: there is no checkpoint");
    else
        mf_log(MF_LOG_INFO, "%lld iterations, %lld control steps; newest checkpoint %s/checkpoints/%06lld.safetensors",
               (long long)q->trainer.policy.iter, (long long)q->trainer.policy.global_step, q->work.path,
               (long long)q->trainer.policy.version);
}

int mf_learner_close(struct mf_run *run, void *self, int rc, struct mf_err *err)
{
    struct mf_learner *q = self;
    struct mf_err late;
    const bool orderly = rc == 0 || rc == MF_STOPPED || rc == MF_CLOSED;
    const bool met = !q->opts.ranks || orderly || rc == MF_EFORMAT; /* all ranks are here */
    int saved = met ? mf_saves_last(&q->saves, &q->trainer, &q->work, q->metrics, q->head, orderly ? err : &late) : 0;
    if (saved && !orderly)
        mf_log(MF_LOG_WARN, "%s", late.text);
    if (rc == 0 && saved == 0) {
        sum_up(q);
        if (mf_run_leads(run))
            mf_missing_say(&q->missing);
    }
    int rc2 = mf_journal_close(q->journal, rc == 0 && saved == 0, saved ? &late : err);
    mf_rounds_free(q->rounds);
    mf_missing_release(&q->missing);
    mf_frame_free(q->head);
    mf_frame_free(q->metrics);
    if (rc == MF_EFORMAT) /* a truncated stream, after a writer's death: the collectors wait for a resumed learner */
        mf_edge_drop(q->edge);
    else
        mf_edge_finish(q->edge);
    mf_trainer_release(&q->trainer);
    mf_workdir_close(&q->work);
    return saved && orderly ? saved : rc2;
}
