/* mf-ppo: improve the policy on every round of rollouts and serve it to the collectors.
 *
 * Waits for a whole round, orders its rows, updates, saves, publishes. A
 * version counts the rounds consumed, also those dropped or without a step,
 * since a collector waits for exactly that version.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "data/json.h"
#include "flow/spec.h"
#include "rl/report.h"
#include "rl/trainer.h"
#include "stage/journal.h"
#include "stage/rundir.h"
#include "stage/stage.h"
#include "wire/edge.h"

enum { SLICES_MAX = 4096, CHECKPOINTS_KEPT = 3 };

struct ppo {
    const char *checkpoint, *run_dir, *device;
    int64_t threads, max_lag, save_interval, log_interval;
    int resume, precision, weights;
    bool force;
    struct mf_policy_opts policy_opts;
    struct mf_noise_opts noise;
    struct mf_ppo_opts opts;

    struct mf_rundir served; /* the stream's run, while it is going on: the one that learns from it */
    struct mf_rundir rundir; /* else, or where run.dir is another: our own */
    char dir[MF_PATH_MAX];
    struct mf_trainer trainer;
    struct mf_edge_server *edge;
    struct mf_journal *journal;
    struct mf_frame *head; /* as it came: provenance */
    struct mf_frame *slice[SLICES_MAX];
    int n_slices;
    double begun, waited_since;
    int64_t first; /* the version that it started from */
    int64_t dropped, foreign;
};

static const struct mf_bind binds[] = {
    {"policy.checkpoint", offsetof(struct ppo, checkpoint)},
    {"policy.weights", offsetof(struct ppo, weights)},
    MF_POLICY_BINDS(struct ppo, policy_opts),
    {"policy.min_noise_std", offsetof(struct ppo, noise.min_std)},
    {"policy.max_noise_std", offsetof(struct ppo, noise.max_std)},
    {"policy.noise_decay_type", offsetof(struct ppo, noise.decay_type)},
    {"policy.noise_decay_steps", offsetof(struct ppo, noise.decay_steps)},
    {"policy.noise_start", offsetof(struct ppo, noise.noise_start)},
    {"policy.noise_end", offsetof(struct ppo, noise.noise_end)},
    {"policy.noise_anneal_steps", offsetof(struct ppo, noise.anneal_steps)},
    {"training.total_timesteps", offsetof(struct ppo, opts.total_timesteps)},
    {"training.num_epochs", offsetof(struct ppo, opts.num_epochs)},
    {"training.batch_size", offsetof(struct ppo, opts.batch_size)},
    {"training.repeat_samples", offsetof(struct ppo, opts.repeat_samples)},
    {"training.clip_range", offsetof(struct ppo, opts.clip_range)},
    {"training.dual_clip", offsetof(struct ppo, opts.dual_clip)},
    {"training.logprob_clamp", offsetof(struct ppo, opts.logprob_clamp)},
    {"training.level", offsetof(struct ppo, opts.level)},
    {"training.loss_agg", offsetof(struct ppo, opts.loss_agg)},
    {"training.value_coef", offsetof(struct ppo, opts.value_coef)},
    {"training.value_clip", offsetof(struct ppo, opts.value_clip)},
    {"training.huber_delta", offsetof(struct ppo, opts.huber_delta)},
    {"training.entropy_coef", offsetof(struct ppo, opts.entropy_coef)},
    {"training.target_kl", offsetof(struct ppo, opts.target_kl)},
    {"training.learning_rate", offsetof(struct ppo, opts.learning_rate)},
    {"training.critic_learning_rate", offsetof(struct ppo, opts.critic_learning_rate)},
    {"training.noise_learning_rate", offsetof(struct ppo, opts.noise_learning_rate)},
    {"training.lr_schedule", offsetof(struct ppo, opts.lr_schedule)},
    {"training.weight_decay", offsetof(struct ppo, opts.weight_decay)},
    {"training.max_grad_norm", offsetof(struct ppo, opts.max_grad_norm)},
    {"training.clip", offsetof(struct ppo, opts.clip)},
    {"training.critic_warmup_steps", offsetof(struct ppo, opts.critic_warmup_steps)},
    {"training.recompute_logprobs", offsetof(struct ppo, opts.recompute_logprobs)},
    {"training.freeze_encoder", offsetof(struct ppo, opts.freeze_encoder)},
    {"training.ema_decay", offsetof(struct ppo, opts.ema_decay)},
    {"training.save_interval", offsetof(struct ppo, save_interval)},
    {"training.log_interval", offsetof(struct ppo, log_interval)},
    {"advantage.normalize_advantages", offsetof(struct ppo, opts.normalize_advantages)},
    {"advantage.normalize_over", offsetof(struct ppo, opts.normalize_over)},
    {"collect.max_lag", offsetof(struct ppo, max_lag)},
    {"run.dir", offsetof(struct ppo, run_dir)},
    {"run.seed", offsetof(struct ppo, opts.seed)},
    {"run.resume", offsetof(struct ppo, resume)},
    {"run.force", offsetof(struct ppo, force)},
    {"device", offsetof(struct ppo, device)},
    {"precision", offsetof(struct ppo, precision)},
    {"threads", offsetof(struct ppo, threads)},
    {0},
};

/* ---- out: the edge, metrics ---- */

static int publish(struct ppo *q, struct mf_err *err)
{
    struct mf_frame **part;
    int n, rc = mf_policy_to_frames(&q->trainer.policy, &part, &n, err);
    if (rc)
        return rc;
    void **data = mf_xcalloc((size_t)n, sizeof *data);
    size_t *size = mf_xcalloc((size_t)n, sizeof *size);
    for (int i = 0; rc == 0 && i < n; i++)
        rc = mf_frame_encode(part[i], &data[i], &size[i], err);
    if (rc == 0 && q->edge)
        rc = mf_edge_publish(q->edge, q->trainer.policy.version, n, (const void *const *)data, size, err);
    for (int i = 0; i < n; i++) {
        free(data[i]);
        mf_frame_free(part[i]);
    }
    free(data);
    free(size);
    free(part);
    return rc;
}

/* Beside the checkpoint: what made it, and how it did. Nothing that determines the numbers, so it may fail. */
static void provenance(const struct ppo *q, const struct mf_frame *metrics)
{
    char path[MF_PATH_MAX];
    mf_rundir_checkpoint(q->dir, q->trainer.policy.version, path);
    snprintf(strrchr(path, '.'), sizeof ".json", ".json");
    FILE *f = fopen(path, "we");
    if (!f)
        return;
    fputs("{\"metrics\": ", f);
    mf_frame_json(metrics, MF_ARRAYS_NONE, f);
    fputs(", \"head\": ", f);
    mf_frame_json(q->head, MF_ARRAYS_NONE, f);
    fputs("}\n", f);
    bool bad = ferror(f);
    if (fclose(f) || bad)
        unlink(path);
}

static int report(struct mf_run *run, struct ppo *q, const struct mf_report *r, struct mf_err *err)
{
    char words[200];
    struct mf_frame *m = mf_report_frame(r);
    if (mf_run_on_terminal(run)) {
        mf_report_row(m, stdout);
        fflush(stdout);
    } else if (mf_log_is_live()) {
        mf_report_words(m, words, sizeof words);
        mf_log_live("%s", words);
    }
    int rc = mf_journal_put(q->journal, m, err);
    if (rc == 0 && q->trainer.policy.iter % q->log_interval == 0)
        rc = mf_emit(run, m, err);
    provenance(q, m);
    mf_frame_free(m);
    return rc;
}

/* ---- in: head, slices, rounds ---- */

static int open_folder(struct ppo *q, const struct mf_frame *head, bool *live, struct mf_err *err)
{
    const char *run = NULL;
    struct mf_err ignored;
    (void)mf_frame_get_str(head, "run", &run, &ignored);
    *live = run && *run && mf_rundir_is_live(run);
    int rc = *live ? mf_rundir_learn(&q->served, run, err) : 0;
    if (rc)
        return rc;
    if (q->run_dir)
        mf_rundir_resolve(q->run_dir, q->dir);
    if (*live && (!q->run_dir || !strcmp(q->dir, run))) {
        snprintf(q->dir, sizeof q->dir, "%s", run);
        return 0;
    }
    rc = mf_rundir_open(&q->rundir, q->run_dir, "offline", q->resume, q->force, err);
    snprintf(q->dir, sizeof q->dir, "%s", q->rundir.path);
    if (rc == 0)
        mf_log(MF_LOG_INFO, "writing to %s, not to the stream's run", q->dir);
    return rc;
}

/* The policy that it starts from: a run goes on, here where the collector says so, or a checkpoint is a start (the
 * collector's, where none is named here), or it is fresh. A collector that is ahead would wait for ever. */
static int open_policy(const struct mf_run *run, struct ppo *q, const struct mf_frame *head, bool live,
                       struct mf_err *err)
{
    char newest[MF_PATH_MAX];
    struct mf_policy_spec spec;
    struct mf_err ignored;
    int64_t due = 0;
    (void)mf_frame_get_int(head, "iter", &due, &ignored);
    bool resumes = (q->resume || (due > 0 && !*q->rundir.path)) && mf_rundir_newest(q->dir, newest);
    const char *from = resumes ? newest : q->checkpoint;
    int rc = mf_policy_spec_from_head(&spec, head, err);
    if (rc == 0 && !from && mf_frame_has(head, "checkpoint"))
        rc = mf_frame_get_str(head, "checkpoint", &from, err);
    if (rc || (rc = mf_policy_spec_holds(&spec, mf_run_conf(run), &q->policy_opts, err)) ||
        (rc = mf_trainer_open(&q->trainer, q->device, (int)q->threads, (enum mf_precision)q->precision, &spec, &q->opts,
                              &q->noise, err)))
        return rc;
    if (from && (rc = mf_trainer_load(&q->trainer, from, resumes, (enum mf_weights)q->weights, err)))
        return rc;
    if (live && due > q->trainer.policy.iter)
        return mf_err_set(err, MF_EUSAGE,
                          "the collector goes on at iteration %lld, and what is learned here would start at %lld; give "
                          "mf-ppo run.resume=auto, and the collector's run.dir or none",
                          (long long)due, (long long)q->trainer.policy.iter);
    q->first = q->trainer.policy.version;
    if (from)
        mf_log(MF_LOG_INFO, "%s %s (%s weights) at iteration %lld", resumes ? "resuming" : "starting from", from,
               q->trainer.from_ema ? "averaged" : "raw", (long long)q->trainer.policy.iter);
    return 0;
}

/* A collector waits at the address in the head, if its run is going on. */
static int serve(struct ppo *q, const struct mf_frame *head, struct mf_err *err)
{
    const struct mf_trainer *t = &q->trainer;
    const char *address;
    struct mf_err ignored;
    if (mf_frame_get_str(head, "policy_address", &address, &ignored))
        return 0;
    int rc = mf_edge_serve(&q->edge, address, (int)q->max_lag + 2, err);
    if (rc == 0 && t->state.bytes)
        rc = mf_edge_give_state(q->edge, t->state.src, t->policy.version, t->state.bytes, t->state.size, err);
    return rc ? rc : publish(q, err);
}

static int take_head(struct mf_run *run, struct ppo *q, struct mf_frame *head, struct mf_err *err)
{
    bool live;
    int rc = open_folder(q, head, &live, err);
    q->head = mf_frame_keep(head);
    if (rc || (rc = open_policy(run, q, head, live, err)) || (live && (rc = serve(q, head, err))) ||
        (rc = mf_journal_open(&q->journal, q->dir, head, q->trainer.policy.iter, err)))
        return rc;
    q->begun = q->waited_since = mf_now();
    return mf_emit(run, head, err);
}

static void drop_slices(struct ppo *q)
{
    for (int i = 0; i < q->n_slices; i++)
        mf_frame_free(q->slice[i]);
    q->n_slices = 0;
}

static int take_slice(struct ppo *q, struct mf_frame *f, struct mf_err *err)
{
    int64_t iter;
    int rc = mf_frame_get_int(f, "iter", &iter, err);
    if (rc)
        return rc;
    if (iter < q->trainer.policy.iter)
        return 0; /* sent again by a collector that was not sure */
    if (iter > q->trainer.policy.iter)
        return mf_err_set(err, MF_EFORMAT,
                          "rollout %lld came where %lld was due: a round is missing, or the learner "
                          "did not start from this stream's checkpoint",
                          (long long)iter, (long long)q->trainer.policy.iter);
    if (q->n_slices == SLICES_MAX)
        return mf_err_set(err, MF_EFORMAT, "round %lld has more than %d slices", (long long)iter, SLICES_MAX);
    q->slice[q->n_slices++] = mf_frame_keep(f);
    return 0;
}

/* The version that made the round; older than allowed: 1. */
static int check_version(struct ppo *q, int64_t *version, struct mf_err *err)
{
    const char *digest = "";
    struct mf_err ignored;
    *version = q->trainer.policy.version;
    if (mf_frame_has(q->slice[0], "policy.version")) {
        int rc = mf_frame_get_int(q->slice[0], "policy.version", version, err);
        if (rc)
            return rc;
    }
    if (*version < 0 || *version > q->trainer.policy.version)
        return mf_err_set(err, MF_EFORMAT, "round %lld was made by policy version %lld, the learner is at %lld",
                          (long long)q->trainer.policy.iter, (long long)*version, (long long)q->trainer.policy.version);
    (void)mf_frame_get_str(q->slice[0], "policy.digest", &digest, &ignored);
    if (*version == q->trainer.policy.version && *digest && strcmp(digest, q->trainer.digest) != 0 && q->foreign++ == 0)
        mf_log(MF_LOG_WARN,
               "round %lld was sampled by other weights (%s) than the learner has (%s): off-policy from here on",
               (long long)q->trainer.policy.iter, digest, q->trainer.digest);
    return *version < q->first || q->trainer.policy.version - *version > q->max_lag;
}

static int learn(struct ppo *q, struct mf_ppo_stats *stats, struct mf_health *health, int64_t *steps,
                 struct mf_err *err)
{
    struct mf_trainer *t = &q->trainer;
    int64_t version;
    int rc = check_version(q, &version, err);
    if (rc == 1) {
        q->dropped++;
        mf_log(MF_LOG_WARN,
               "round %lld is of policy version %lld, older than collect.max_lag=%lld or this learner's start allow: "
               "dropped",
               (long long)t->policy.iter, (long long)version, (long long)q->max_lag);
        return 0;
    }
    if (rc || (rc = mf_trainer_learn(t, version, q->slice, q->n_slices, stats, health, steps, err)))
        return rc;
    if (stats->logratio_gap > 0 && !q->foreign && version == t->policy.version && !q->opts.recompute_logprobs)
        mf_log(MF_LOG_WARN,
               "round %lld: log-probabilities differ by %.3g before the first step; sampled on another device? "
               "(training.recompute_logprobs=true)",
               (long long)t->policy.iter, stats->logratio_gap);
    return 0;
}

/* The round is consumed: next version, saved, then served. */
static int advance(struct ppo *q, const struct mf_frame *round, int64_t steps, struct mf_err *err)
{
    char path[MF_PATH_MAX];
    const char *src = "";
    const void *state = NULL;
    size_t size = 0;
    int rc = mf_frame_has(round, "src") ? mf_frame_get_str(round, "src", &src, err) : 0;
    if (rc == 0 && mf_frame_has(round, "state"))
        rc = mf_frame_get_bin(round, "state", &state, &size, err);
    if (rc || (rc = mf_trainer_next(&q->trainer, steps, src, state, size, err)))
        return rc;
    mf_rundir_checkpoint(q->dir, q->trainer.policy.version, path);
    if ((rc = mf_trainer_save(&q->trainer, path, err)))
        return rc;
    mf_rundir_prune(q->dir, q->trainer.policy.version, CHECKPOINTS_KEPT, q->save_interval);
    return q->edge ? publish(q, err) : 0;
}

static int take_round(struct mf_run *run, struct ppo *q, const struct mf_frame *round, struct mf_err *err)
{
    const struct mf_policy *p = &q->trainer.policy;
    struct mf_ppo_stats stats = {.explained_variance = NAN};
    struct mf_health health = {NAN, NAN, NAN};
    int64_t iter, slices, steps = 0;
    double start = mf_now(), noise = p->noise_high;
    int rc;
    if ((rc = mf_frame_get_int(round, "iter", &iter, err)) || (rc = mf_frame_get_int(round, "slices", &slices, err)))
        return rc;
    if (iter < p->iter)
        return 0; /* sent again by a collector that was not sure */
    if (iter > p->iter || slices != q->n_slices)
        return mf_err_set(err, MF_EFORMAT, "round %lld with %lld slices came where round %lld with %d was due",
                          (long long)iter, (long long)slices, (long long)p->iter, q->n_slices);
    rc = q->n_slices ? learn(q, &stats, &health, &steps, err) : 0;
    drop_slices(q);
    if (rc || (rc = advance(q, round, steps, err)))
        return rc;
    struct mf_report r = {.iter = p->iter - 1,
                          .step = p->global_step,
                          .time = mf_now() - q->begun,
                          .update_time = mf_now() - start,
                          .round_time = mf_now() - q->waited_since,
                          .steps = steps,
                          .dropped = q->dropped,
                          .noise = noise,
                          .round = round,
                          .stats = &stats,
                          .health = &health};
    q->waited_since = mf_now();
    return report(run, q, &r, err);
}

static int frame(struct mf_run *run, void *self, struct mf_frame *f, struct mf_err *err)
{
    struct ppo *q = self;
    switch (mf_frame_kind(f)) {
    case MF_HEAD:
        return take_head(run, q, f, err);
    case MF_ROLLOUT:
        return take_slice(q, f, err);
    case MF_ROUND:
        return take_round(run, q, f, err);
    default:
        return 0;
    }
}

static int ended(struct mf_run *run, void *self, const struct mf_frame *end, struct mf_err *err)
{
    struct ppo *q = self;
    (void)end, (void)err;
    mf_log_live("%s", "");
    (void)run;
    if (q->trainer.policy.version == 0)
        mf_log(MF_LOG_INFO, "the stream had no round to learn from: there is no checkpoint");
    else
        mf_log(MF_LOG_INFO, "%lld iterations, %lld control steps; newest checkpoint %s/checkpoints/%06lld.safetensors",
               (long long)q->trainer.policy.iter, (long long)q->trainer.policy.global_step, q->dir,
               (long long)q->trainer.policy.version);
    return 0;
}

static int close_ppo(struct mf_run *run, void *self, int rc, struct mf_err *err)
{
    struct ppo *q = self;
    (void)run;
    int rc2 = mf_journal_close(q->journal, rc == 0, err);
    drop_slices(q);
    mf_frame_free(q->head);
    mf_edge_finish(q->edge);
    mf_trainer_release(&q->trainer);
    mf_rundir_close(&q->rundir);
    mf_rundir_close(&q->served);
    return rc2;
}

static int open_ppo(struct mf_run *run, void *self, struct mf_err *err)
{
    (void)run, (void)err;
    ((struct ppo *)self)->rundir.lock = ((struct ppo *)self)->served.lock = -1;
    return 0;
}

static const struct mf_stage stage = {
    .name = "ppo",
    .summary = "Improve the flow policy by PPO on every round, and serve it to the collectors.",
    .examples = "  mf-collect env=lift policy.checkpoint=clone.safetensors | mf-gae | mf-ppo >metrics.mf\n"
                "  mf-replay rollouts.hdf5 | mf-gae | mf-ppo policy.checkpoint=clone.safetensors run.dir=again\n",
    .role = MF_SINK,
    .binds = binds,
    .size = sizeof(struct ppo),
    .open = open_ppo,
    .frame = frame,
    .ended = ended,
    .close = close_ppo,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
