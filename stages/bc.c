/* mf-bc: clone a flow policy from demonstrations (flow, shortcut and consistency losses), all samples alike or weighted
 * by how good their actions were (offline reinforcement learning).
 *
 * Both are one program, since the critics' targets read the policy that learns: weights cannot come from an earlier
 * stage. A source of metrics: head, metrics, end. Training runs in stretches of minibatches, with one metrics frame
 * each. Checkpoints are saved between stretches, so a resumed run gives the same frames and weights as an uninterrupted
 * one.
 */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "flow/cloning.h"
#include "flow/cloning_report.h"
#include "flow/frames.h"
#include "flow/spec_keys.h"
#include "flow/usage.h"
#include "import/demos_in.h"
#include "lang/prompter.h"
#include "ranks/ranks.h"
#include "rl/offline.h"
#include "run/runs.h"
#include "stage/journal.h"
#include "stage/rundir.h"
#include "stage/stage.h"

enum { STRETCH = 10 };                       /* minibatches per metrics frame */
enum { SAVE_SECONDS = 10, SAVE_TIMES = 20 }; /* between checkpoints: at least so long, and so many times a save */
enum { SHOW_SECONDS = 10 };                  /* between progress lines while reading data */
static const double LARGE = 64 << 20;        /* bytes of a checkpoint */

struct bc {
    const char *dataset, *filter, *checkpoint;
    int weights; /* enum mf_weights, of the checkpoint */
    struct mf_env_opts env_opts;
    struct mf_names obs_keys;
    struct mf_rundir_opts run;
    struct mf_cloning_opts opts;
    struct mf_offline_opts weighing;
    int64_t cache_mib;
    struct mf_cloning_progress progress;
    bool resumes;

    struct mf_rundir rundir;
    struct mf_journal *journal;
    struct mf_demos demos;
    struct mf_loaded *start; /* the open checkpoint; NULL: fresh weights */
    struct mf_cloning cloning;
    struct mf_offline offline;
    int64_t saved;         /* minibatches in the checkpoint */
    double began;          /* start of training, shifted by all interruptions */
    double saved_at, took; /* mf_now; the last save, s */
    char world[64];        /* the environment of the demonstrations; "": unknown */
    char path[MF_PATH_MAX];
};

static const struct mf_bind binds[] = {
    {"clone.dataset", offsetof(struct bc, dataset)},     {"clone.filter_key", offsetof(struct bc, filter)},
    {"clone.cache_mib", offsetof(struct bc, cache_mib)}, {"policy.obs_keys", offsetof(struct bc, obs_keys)},
    {"log.progress", offsetof(struct bc, progress.all)}, {"policy.checkpoint", offsetof(struct bc, checkpoint)},
    {"policy.weights", offsetof(struct bc, weights)},    {0},
};
static const struct mf_bind_table tables[] = {{mf_policy_binds, 0},
                                              {mf_env_binds, offsetof(struct bc, env_opts)},
                                              {mf_rundir_binds, offsetof(struct bc, run)},
                                              {mf_cloning_binds, offsetof(struct bc, opts)},
                                              {mf_offline_binds, offsetof(struct bc, weighing)},
                                              {0}};

static int64_t step_of(const struct bc *b) /* minibatches so far */
{
    return b->cloning.optimizer.minibatches;
}

/* ---- the data and the policy that learns from it ---- */

/* Its observations are read where no others are named. */
static int open_start(struct bc *b, struct mf_err *err)
{
    char file[MF_PATH_MAX];
    int rc = b->checkpoint ? mf_runs_checkpoint(b->checkpoint, file, err) : 0;
    if (rc || !b->checkpoint || (rc = mf_checkpoint_open(&b->start, file, err)))
        return rc;
    const struct mf_layout *obs = &mf_loaded_spec(b->start)->obs;
    for (int i = 0; b->obs_keys.n == 0 && i < obs->n && i < MF_LIST_MAX; i++)
        strcpy(b->obs_keys.v[i], obs->key[i].name);
    b->obs_keys.n = b->obs_keys.n ? b->obs_keys.n : obs->n < MF_LIST_MAX ? obs->n : MF_LIST_MAX;
    return 0;
}

/* Tokens of a prompt: as many as its key says, as the policy that it starts from reads, or the usual number. */
static int prompt_length(const struct bc *b)
{
    const struct mf_obs *tokens = b->start ? mf_layout_find(&mf_loaded_spec(b->start)->obs, MF_OBS_TOKENS) : NULL;
    return b->env_opts.prompt_length ? (int)b->env_opts.prompt_length : tokens ? tokens->dim[0] : MF_PROMPT_LENGTH;
}

static int open_demos(struct mf_run *run, struct bc *b, struct mf_err *err)
{
    const struct mf_demos_opts o = {.filter = b->filter,
                                    .cache = (size_t)b->cache_mib << 20,
                                    .tokenizer = b->env_opts.tokenizer,
                                    .prompt_length = prompt_length(b)};
    const struct mf_names *keys = &b->obs_keys;
    b->env_opts.warn = mf_log_warn;
    const bool named = mf_conf_was_set(mf_run_conf(run), "env.name");
    int rc = mf_demos_open_in(&b->demos, b->dataset, &o, keys->n, keys->v, &b->env_opts, named, b->world, err);
    const struct mf_env *env;
    struct mf_err ignored;
    if (!named && *b->world && mf_env_find(&env, b->world, &ignored)) /* not built in: the file names it */
        b->env_opts.name = b->world;
    if (!named)
        b->env_opts.name = mf_run_assume(run, "env.name", b->env_opts.name);
    if (!named && !*b->world)
        mf_conf_omit(mf_run_record(run), "env.name");
    if (rc == 0 && keys->n == 0 && *b->demos.unseen)
        mf_log(MF_LOG_WARN, "%s has observations that the policy does not read: %s; select with policy.obs_keys=[..]",
               b->dataset, b->demos.unseen);
    return rc;
}

static void tell(void *self, size_t done, size_t of)
{
    struct bc *b = self;
    mf_log_live("%s: %zu of %zu demonstrations read", b->dataset, done, of);
    if (mf_now() - b->progress.shown_at > SHOW_SECONDS) {
        b->progress.shown_at = mf_now();
        mf_log(MF_LOG_INFO, "%s: %zu of %zu demonstrations read", b->dataset, done, of);
    }
}

static int say_memory(const struct bc *b, const struct mf_policy_spec *spec, struct mf_err *err)
{
    const uint64_t cache = (uint64_t)b->cache_mib << 20;
    struct mf_memory m = {
        .keys = {[MF_MEMORY_ACTIVATIONS] = "threads", [MF_MEMORY_ROWS] = "clone.batch_size and clone.cache_mib"}};
    m.of[MF_MEMORY_ROWS] = (double)(b->demos.bytes < cache ? b->demos.bytes : cache);
    struct mf_cloning c;
    int rc = mf_cloning_outline(&c, spec, b->start, (enum mf_weights)b->weights, &b->opts, err);
    if (rc == 0) {
        mf_cloning_memory(&c, &b->demos, &m);
        rc = mf_offline_memory(&b->demos, &b->weighing, &c, &m, err);
    }
    mf_cloning_release(&c);
    return rc ? rc : mf_memory_say(&m, NULL, err);
}

static int make_spec(const struct mf_run *run, struct bc *b, struct mf_policy_spec *spec, struct mf_err *err)
{
    const struct mf_conf *conf = mf_run_conf(run);
    const int A = (int)b->demos.column[MF_DEMO_ACTIONS].count;
    struct mf_layout obs = {0};
    int rc = mf_demos_show(&b->demos, b->dataset, &b->env_opts, &obs, err);
    if (rc)
        return rc;
    rc = b->start ? mf_policy_spec_adopt(spec, b->start, conf, &obs, A, b->dataset, err)
                  : mf_policy_spec_make(spec, conf, &obs, A, err);
    return rc ? rc
              : mf_policy_spec_tokenizer(spec, b->start ? mf_loaded_path(b->start) : "", mf_demos_tokenizer(&b->demos),
                                         mf_demos_pieces(&b->demos), err);
}

static int open_cloning(const struct mf_run *run, struct bc *b, struct mf_err *err)
{
    struct mf_policy_spec spec;
    int rc = make_spec(run, b, &spec, err);
    if (rc)
        return rc;
    if (spec.steer)
        return mf_err_set(err, MF_EUSAGE,
                          "policy.steer chooses the initial noise of a flow that is frozen, and mf-bc trains the flow: "
                          "leave it out here, and give it to mf-collect");
    if (!b->start)
        mf_policy_spec_warn(&spec, mf_log_warn);
    if (b->opts.freeze_encoder && !b->start) {
        mf_log(MF_LOG_INFO,
               "training.freeze_encoder=true is for an encoder of policy.checkpoint: fresh weights all learn");
        b->opts.freeze_encoder = false;
    }
    spec.n_critic = 0; /* the learner makes its own, and its noise */
    spec.learned_noise = false;
    strcpy(spec.env, b->world);
    const enum mf_weights which = (enum mf_weights)b->weights;
    if ((rc = say_memory(b, &spec, err)) ||
        (rc = mf_cloning_open(&b->cloning, &spec, b->start, which, &b->demos, &b->opts, tell, b, err)))
        return rc;
    mf_policy_warn_frozen(&b->cloning.policy, b->opts.freeze_encoder, mf_log_warn);
    if (b->start)
        mf_log(MF_LOG_INFO, "starting from %s (%s weights)", mf_loaded_path(b->start),
               mf_loaded_uses_ema(b->start, &b->cloning.policy.params, which) ? "averaged" : "raw");
    return mf_offline_open(&b->offline, &b->weighing, &b->cloning, err);
}

static int read_data(struct mf_run *run, struct bc *b, struct mf_err *err)
{
    if (!b->dataset)
        return mf_err_set(err, MF_EUSAGE, "clone.dataset=FILE is missing: demonstrations in robomimic's HDF5 layout");
    if (access(b->dataset, F_OK) < 0) /* before any error about the environment */
        return mf_err_errno(err, "clone.dataset='%.300s'", b->dataset);
    int rc = b->checkpoint ? mf_cloning_inherits(mf_run_conf(run), mf_run_record(run), err) : 0;
    rc = rc ? rc : open_start(b, err);
    if (rc || (rc = open_demos(run, b, err)) || (rc = open_cloning(run, b, err)))
        return rc;
    struct mf_names seen = {.n = b->cloning.policy.spec.obs.n}; /* the folder records the keys in force */
    for (int i = 0; i < seen.n; i++)
        strcpy(seen.v[i], b->cloning.policy.spec.obs.key[i].name);
    mf_conf_assume_names(mf_run_record(run), "policy.obs_keys", &seen);
    const double bytes = mf_cloning_checkpoint_bytes(&b->cloning);
    if (bytes >= LARGE)
        mf_log(MF_LOG_INFO,
               "the checkpoint takes %.0f MiB; it is saved every %d s, or less often, so that saving takes at most "
               "1/%d of the time",
               bytes / (1 << 20), SAVE_SECONDS, SAVE_TIMES);
    double mib = (double)b->demos.bytes / (1 << 20);
    mf_log(MF_LOG_INFO, "%s: %zu demonstrations, %zu steps, %zu samples; %.1f MiB%s", b->dataset, b->demos.n_demos,
           b->demos.total, b->cloning.windows.n, mib,
           mib > (double)b->cache_mib ? ", more than clone.cache_mib: read page by page" : "");
    return 0;
}

/* Several ranks have trained the same policy. */
static int compare(const struct bc *b, struct mf_err *err)
{
    char digest[17];
    mf_policy_digest(&b->cloning.policy, digest);
    return mf_ranks_compare(b->opts.ranks, digest, sizeof digest, "the policy", err);
}

/* ---- the folder and its checkpoint ---- */

/* Ranks save together. */
static int save(struct bc *b, struct mf_err *err)
{
    const double start = mf_now();
    int rc = mf_cloning_save(&b->cloning, b->path, err);
    if (rc == 0)
        mf_rundir_begun(&b->rundir);
    b->saved = step_of(b);
    b->saved_at = mf_now();
    b->took = b->saved_at - start;
    return rc;
}

/* The path of the checkpoint, and the existing one if the run resumes. */
static int open_folder(const struct mf_run *run, struct bc *b, struct mf_err *err)
{
    b->run.task = "clone";
    b->run.clones = true;
    int rc = mf_run_leads(run) ? mf_rundir_open(&b->rundir, &b->run, err) : 0;
    if (rc)
        return rc;
    if (mf_run_leads(run))
        mf_rundir_sweep(b->rundir.path), b->resumes = mf_runs_clone(b->rundir.path, b->path) && b->run.resume;
    if ((rc = mf_run_share(run, &b->resumes, sizeof b->resumes, err)) ||
        (rc = mf_run_share(run, b->path, sizeof b->path, err)))
        return rc;
    if (!b->resumes) {
        if (b->run.resume && mf_run_leads(run))
            mf_rundir_say_anew(b->rundir.path);
        return 0;
    }
    if ((rc = mf_cloning_load(&b->cloning, b->path, err)))
        return rc;
    b->saved = step_of(b);
    mf_log(MF_LOG_INFO, "resuming %s at minibatch %lld%s", b->path, (long long)b->saved,
           b->saved < b->opts.steps ? "" : ", the last of clone.steps: raise clone.steps to continue");
    return 0;
}

/* ---- running ---- */

static int emit_head(struct mf_run *run, struct bc *b, struct mf_err *err)
{
    struct mf_frame *head = mf_frame_head(b->rundir.path, "", b->opts.seed);
    mf_policy_spec_to_head(&b->cloning.policy.spec, head);
    int rc = mf_run_join(run, b->rundir.path, b->resumes, err);
    mf_run_sign(run, head);
    rc = rc ? rc : mf_emit(run, head, err);
    if (rc == 0) {
        mf_rundir_accepted(&b->rundir);
        mf_run_accepted(run);
    }
    if (rc == 0)
        rc = mf_journal_open(&b->journal, b->rundir.path, head, (step_of(b) + STRETCH - 1) / STRETCH, err);
    if (rc == 0)
        b->began = mf_now() - mf_journal_spent(b->journal);
    mf_frame_free(head);
    return rc;
}

/* Rank 0 has written, for which the others wait without limit. */
static int rejoin(const struct mf_run *run, struct mf_err *err)
{
    bool written = mf_run_leads(run);
    return mf_run_share(run, &written, sizeof written, err);
}

static int open_bc(struct mf_run *run, void *self, struct mf_err *err)
{
    struct bc *b = self;
    b->rundir.lock = -1;
    b->opts.ranks = mf_run_ranks(run);
    b->saved_at = b->progress.shown_at = mf_now();
    int rc = read_data(run, b, err);
    if (rc || (rc = mf_ranks_await(b->opts.ranks, err)) || (rc = open_folder(run, b, err)) ||
        (rc = mf_ranks_await(b->opts.ranks, err)) || (rc = compare(b, err)))
        return rc;
    rc = mf_run_leads(run) ? emit_head(run, b, err) : 0;
    return rc ? rc : rejoin(run, err);
}

static int report(struct mf_run *run, struct bc *b, const struct mf_cloning_stats *seen, int64_t taken, double seconds,
                  struct mf_err *err)
{
    const struct mf_cloning_report r = {.iter = (step_of(b) - 1) / STRETCH,
                                        .step = step_of(b),
                                        .steps = b->opts.steps,
                                        .taken = taken,
                                        .time = mf_now() - b->began,
                                        .speed = (double)(taken * b->opts.batch_size) / seconds,
                                        .stats = seen};
    struct mf_frame *m = mf_cloning_report_frame(&r);
    mf_offline_report(&b->offline, &seen->weighing, taken, m);
    mf_frame_set_num(m, "values.perf/samples_per_s", r.speed);
    mf_usage_report(b->cloning.engine, m);
    mf_cloning_report_show(&r, &b->progress);
    int rc = mf_journal_put(b->journal, m, err);
    if (rc == 0)
        rc = mf_emit(run, m, err);
    mf_frame_free(m);
    return rc;
}

static int record(struct mf_run *run, struct bc *b, const struct mf_cloning_stats *seen, int64_t taken, double seconds,
                  struct mf_err *err)
{
    bool due = mf_now() - b->saved_at > fmax(SAVE_SECONDS, SAVE_TIMES * b->took);
    const int said = mf_run_leads(run) && taken ? report(run, b, seen, taken, seconds, err) : 0;
    if (said && said != MF_STOPPED) /* which stops the others, too, behind this */
        return said;
    int rc = mf_run_share(run, &due, sizeof due, err);
    if (rc == 0 && due)
        rc = save(b, err);
    if (rc == 0 && due)
        rc = rejoin(run, err);
    return rc ? rc : said;
}

static int work(struct mf_run *run, void *self, struct mf_err *err)
{
    struct bc *b = self;
    struct mf_cloning_stats seen = {0};
    int64_t first = step_of(b), end = (first / STRETCH + 1) * STRETCH;
    double start = mf_now();
    int rc = 0;
    while (rc == 0 && step_of(b) < end && step_of(b) < b->opts.steps)
        rc = mf_cloning_step(&b->cloning, &seen, err);
    if (rc == 0 && step_of(b) == b->opts.steps)
        rc = compare(b, err);
    if (rc == 0)
        rc = record(run, b, &seen, step_of(b) - first, mf_now() - start, err);
    return rc ? rc : step_of(b) < b->opts.steps;
}

static void say_end(const struct bc *b)
{
    if (step_of(b) < b->opts.steps)
        mf_log(MF_LOG_INFO, "stopped at minibatch %lld of %lld; its checkpoint is %s (continue with run.resume=auto)",
               (long long)step_of(b), (long long)b->opts.steps, b->path);
    else
        mf_log(MF_LOG_INFO, "%lld minibatches; the clone is %s", (long long)step_of(b), b->path);
}

static int close_bc(struct mf_run *run, void *self, int rc, struct mf_err *err)
{
    struct bc *b = self;
    const bool whole = rc == 0 || rc == MF_STOPPED || rc == MF_CLOSED; /* of all ranks */
    bool due = b->journal && (b->saved < step_of(b) || step_of(b) == 0);
    int late = whole ? mf_run_share(run, &due, sizeof due, err) : 0;
    if (whole && late == 0 && due)
        late = save(b, err);
    mf_log_live("%s", "");
    if (whole && late == 0 && b->journal)
        say_end(b);
    int shut = mf_journal_close(b->journal, rc == 0 && step_of(b) == b->opts.steps, err);
    mf_offline_release(&b->offline);
    mf_cloning_release(&b->cloning);
    mf_checkpoint_close(b->start);
    mf_demos_close(&b->demos);
    mf_rundir_close(&b->rundir);
    return late ? late : shut;
}

static const struct mf_stage stage = {
    .name = "bc",
    .summary = "Clone a flow policy from demonstrations; by offline reinforcement learning, more from good ones.",
    .examples = "  mf-bc clone.dataset=demos.hdf5 run.dir=outputs/flow\n"
                "  mf-bc clone.dataset=low_dim.hdf5 clone.filter_key=train clone.loss=shortcut \\\n"
                "      policy.network=shortcut_mlp policy.cond_hidden=[64,16]\n"
                "  mf-bc clone.dataset=demos.hdf5 policy.checkpoint=outputs/flow clone.weight=q run.dir=outputs/q\n",
    .role = MF_SOURCE,
    .watched = true,
    .metrics = true,
    .ranks = true,
    .binds = binds,
    .tables = tables,
    .size = sizeof(struct bc),
    .open = open_bc,
    .work = work,
    .close = close_bc,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
