#include "learn/learner_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "flow/usage.h"
#include "ranks/ranks.h"
#include "rl/report.h"
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

/* ---- out: metrics ---- */

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

/* ---- in: heads, slices, rounds ---- */

/* A new source, or one that starts over. */
static int take_head(struct mf_run *run, struct mf_learner *q, struct mf_frame *head, struct mf_err *err)
{
    const char *src = "";
    int rc = q->head ? 0 : mf_learner_begin(run, q, head, err);
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
    if (rc == 0 && (rc = mf_learner_compare(q, err)))
        q->trainer.torn = true;
    rc = rc ? rc : mf_saves_next(&q->saves, &q->trainer, &q->work, err);
    return rc || !mf_run_leads(run) ? rc : mf_learner_publish(q, err);
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
