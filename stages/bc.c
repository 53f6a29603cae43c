/* mf-bc: clone a flow policy from demonstrations (flow, shortcut or consistency loss).
 *
 * A source of metrics: head, metrics, end. The work is cut into stretches of
 * minibatches, one metrics frame each; a checkpoint lies between stretches,
 * so a run that goes on gives the same frames and weights as one that was
 * never interrupted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "flow/checkpoint.h"
#include "flow/cloner.h"
#include "flow/dataset.h"
#include "flow/optimizer.h"
#include "flow/spec_keys.h"
#include "import/demos_in.h"
#include "stage/journal.h"
#include "stage/rundir.h"
#include "stage/stage.h"

enum { STRETCH = 10 };                         /* minibatches to a metrics frame */
enum { SAVE_SECONDS = 10, TELL_SECONDS = 10 }; /* between checkpoints; between lines while the data are read */

struct bc {
    const char *dataset, *filter, *device;
    struct mf_env_opts env_opts;
    struct mf_names obs_keys;
    struct mf_rundir_opts run;
    int loss, time_sampling, normalizer, precision;
    int64_t steps, batch_size, warmup, seed, threads, cache_mib, pad_before, pad_after;
    double learning_rate, weight_decay, dropout, ema_decay, ema_power, ema_max, range_floor;
    bool normalize_actions, progress, resumes;

    struct mf_rundir rundir;
    struct mf_journal *journal;
    struct mf_engine *engine;
    struct mf_policy policy;
    struct mf_clone_opts opts;
    struct mf_cloner *cloner;
    struct mf_optimizer optimizer;
    struct mf_demos demos;
    struct mf_dataset windows;
    float *obs, *actions; /* (batch_size, O), (batch_size, D): a minibatch */
    int64_t saved;        /* minibatches in the checkpoint */
    double began;         /* when training would have begun, had it never been interrupted */
    double saved_at, told_at;
    int rows;       /* of progress so far */
    char world[64]; /* the environment of the demonstrations; "": nobody says */
    char path[MF_PATH_MAX];
};

static const struct mf_bind binds[] = {
    {"clone.dataset", offsetof(struct bc, dataset)},
    {"clone.filter_key", offsetof(struct bc, filter)},
    {"clone.pad_before", offsetof(struct bc, pad_before)},
    {"clone.pad_after", offsetof(struct bc, pad_after)},
    {"clone.cache_mib", offsetof(struct bc, cache_mib)},
    {"clone.loss", offsetof(struct bc, loss)},
    {"clone.time_sampling", offsetof(struct bc, time_sampling)},
    {"clone.steps", offsetof(struct bc, steps)},
    {"clone.batch_size", offsetof(struct bc, batch_size)},
    {"clone.learning_rate", offsetof(struct bc, learning_rate)},
    {"clone.warmup_steps", offsetof(struct bc, warmup)},
    {"clone.weight_decay", offsetof(struct bc, weight_decay)},
    {"clone.attention_dropout", offsetof(struct bc, dropout)},
    {"clone.ema_decay", offsetof(struct bc, ema_decay)},
    {"clone.ema_power", offsetof(struct bc, ema_power)},
    {"clone.ema_max", offsetof(struct bc, ema_max)},
    {"clone.normalizer", offsetof(struct bc, normalizer)},
    {"clone.range_floor", offsetof(struct bc, range_floor)},
    {"clone.normalize_actions", offsetof(struct bc, normalize_actions)},
    MF_ENV_BINDS(struct bc, env_opts),
    {"policy.obs_keys", offsetof(struct bc, obs_keys)},
    MF_RUNDIR_BINDS(struct bc, run),
    {"run.seed", offsetof(struct bc, seed)},
    {"log.progress", offsetof(struct bc, progress)},
    {"device", offsetof(struct bc, device)},
    {"precision", offsetof(struct bc, precision)},
    {"threads", offsetof(struct bc, threads)},
    {0},
};
static const struct mf_bind_table tables[] = {{mf_policy_binds, 0}, {0}};

/* ---- the data and the policy that learns from it ---- */

static int open_demos(struct mf_run *run, struct bc *b, struct mf_err *err)
{
    const struct mf_demos_opts o = {.filter = b->filter, .cache = (size_t)b->cache_mib << 20};
    const struct mf_names *keys = &b->obs_keys;
    const bool named = mf_conf_was_set(mf_run_conf(run), "env.name");
    int rc = mf_demos_open_in(&b->demos, b->dataset, &o, keys->n, keys->v, &b->env_opts, named, b->world, err);
    const struct mf_env *env;
    struct mf_err ignored;
    if (!named && *b->world && mf_env_find(&env, b->world, &ignored)) /* none of ours: the file names it */
        b->env_opts.name = b->world;
    if (!named)
        b->env_opts.name = mf_run_assume(run, "env.name", b->env_opts.name);
    if (!named && !*b->world)
        mf_conf_omit(mf_run_record(run), "env.name");
    if (rc == 0 && keys->n == 0 && *b->demos.unseen)
        mf_log(MF_LOG_WARN, "%s has observations that the policy does not read: %s; choose by policy.obs_keys=[..]",
               b->dataset, b->demos.unseen);
    return rc;
}

static void tell(void *self, size_t done, size_t of)
{
    struct bc *b = self;
    mf_log_live("%s: %zu of %zu demonstrations read", b->dataset, done, of);
    if (mf_now() - b->told_at > TELL_SECONDS) {
        b->told_at = mf_now();
        mf_log(MF_LOG_INFO, "%s: %zu of %zu demonstrations read", b->dataset, done, of);
    }
}

/* Of the demonstrations, what the cache takes of them. */
static int say_memory(const struct bc *b, const struct mf_policy_spec *spec, struct mf_err *err)
{
    const struct mf_machine_memory machine = mf_machine_memory("");
    struct mf_memory m = {.rows = "clone.batch_size and clone.cache_mib"};
    const size_t cache = (size_t)b->cache_mib << 20;
    m.of[MF_MEMORY_ROWS] =
        (double)(b->demos.bytes < cache ? b->demos.bytes : cache) + (double)(b->demos.total * sizeof(uint32_t));
    int rc = mf_cloner_memory(b->engine, spec, &b->opts, (size_t)b->batch_size, &m, err);
    return rc ? rc : mf_memory_say(&m, &machine, err);
}

static int make_policy(const struct mf_run *run, struct bc *b, struct mf_err *err)
{
    struct mf_policy_spec spec;
    struct mf_layout obs = {0};
    struct mf_demos *d = &b->demos;
    int rc = mf_demos_show(d, b->dataset, b->env_opts.num_points, &obs, err);
    if (rc)
        return rc;
    rc = mf_policy_spec_make(&spec, mf_run_conf(run), &obs, (int)d->column[MF_DEMO_ACTIONS].count, err);
    if (rc)
        return rc;
    spec.n_critic = 0; /* the learner makes its own, and its noise */
    spec.learned_noise = false;
    strcpy(spec.env, b->world);
    if ((rc = say_memory(b, &spec, err)) || (rc = mf_policy_init(&b->policy, &spec, err)))
        return rc;
    mf_policy_fresh(&b->policy, (uint64_t)b->seed);
    struct mf_fit fit = {(enum mf_normalizer)b->normalizer, b->range_floor, b->normalize_actions, tell, b};
    rc = mf_dataset_fit(&b->policy, d, &fit, err);
    return rc ? rc : mf_dataset_open(&b->windows, &b->policy, d, b->pad_before, b->pad_after, err);
}

static int read_data(struct mf_run *run, struct bc *b, struct mf_err *err)
{
    if (!b->dataset)
        return mf_err_set(err, MF_EUSAGE, "clone.dataset=FILE is missing: demonstrations in robomimic's HDF5 layout");
    if (access(b->dataset, F_OK) < 0) /* before what the environment has to say */
        return mf_err_errno(err, "clone.dataset='%.300s'", b->dataset);
    int rc = open_demos(run, b, err);
    if (rc || (rc = make_policy(run, b, err)))
        return rc;
    struct mf_names seen = {.n = b->policy.spec.obs.n}; /* the folder tells what was in force */
    for (int i = 0; i < seen.n; i++)
        strcpy(seen.v[i], b->policy.spec.obs.key[i].name);
    mf_conf_assume_names(mf_run_record(run), "policy.obs_keys", &seen);
    double mib = (double)b->demos.bytes / (1 << 20);
    mf_log(MF_LOG_INFO, "%s: %zu demonstrations, %zu steps, %zu samples; %.1f MiB%s", b->dataset, b->demos.n_demos,
           b->demos.total, b->windows.n, mib,
           mib > (double)b->cache_mib ? ", more than clone.cache_mib: the rest is read when it is needed" : "");
    return 0;
}

/* ---- the checkpoint ---- */

static int save(struct bc *b, struct mf_err *err)
{
    char step[32], samples[32], seed[32];
    snprintf(step, sizeof step, "%lld", (long long)b->optimizer.minibatches);
    snprintf(samples, sizeof samples, "%zu", b->windows.n);
    snprintf(seed, sizeof seed, "%lld", (long long)b->seed);
    const char *extra[][2] = {{"clone_samples", samples}, {"clone_step", step}, {"seed", seed}};
    struct mf_checkpoint c = {.policy = &b->policy,
                              .ema = b->optimizer.ema,
                              .adam = &b->optimizer.adam,
                              .kind = "clone",
                              .n_extra = 3,
                              .extra = extra};
    int rc = mf_checkpoint_save(b->path, &c, err);
    if (rc == 0)
        mf_rundir_begun(&b->rundir);
    b->saved = b->optimizer.minibatches;
    b->saved_at = mf_now();
    return rc;
}

static int same_run(const struct bc *b, const struct mf_loaded *l, struct mf_err *err)
{
    const char *samples = mf_loaded_extra(l, "clone_samples"), *seed = mf_loaded_extra(l, "seed");
    if (!samples || strtoull(samples, NULL, 10) != b->windows.n)
        return mf_err_set(err, MF_EUSAGE, "%s was cloned from %s samples, clone.dataset=%s has %zu", b->path,
                          samples ? samples : "other", b->dataset, b->windows.n);
    if (!seed || strtoll(seed, NULL, 10) != b->seed)
        return mf_err_set(err, MF_EUSAGE, "%s was begun with run.seed=%s, not %lld", b->path, seed ? seed : "?",
                          (long long)b->seed);
    return mf_policy_spec_agree(mf_loaded_spec(l), b->path, &b->policy.spec, "the configuration", err);
}

static int go_on(struct bc *b, struct mf_err *err)
{
    struct mf_loaded *l;
    int rc = mf_checkpoint_open(&l, b->path, err);
    if (rc)
        return rc;
    if ((rc = same_run(b, l, err)) == 0 && (rc = mf_loaded_policy(l, &b->policy, MF_WEIGHTS_RAW, err)) == 0)
        rc = mf_optimizer_load(&b->optimizer, l, err);
    b->saved = b->optimizer.minibatches;
    mf_checkpoint_close(l);
    if (rc == 0)
        mf_log(MF_LOG_INFO, "resuming %s at minibatch %lld%s", b->path, (long long)b->optimizer.minibatches,
               b->optimizer.minibatches < b->steps ? "" : ", the last of clone.steps: raise it to go on");
    return rc;
}

/* The place of the checkpoint, and the one that is there, where it is to be continued. */
static int open_folder(struct bc *b, struct mf_err *err)
{
    b->run.task = "clone";
    b->run.clones = true;
    int rc = mf_rundir_open(&b->rundir, &b->run, err);
    if (rc)
        return rc;
    b->resumes = mf_runs_clone(b->rundir.path, b->path) && b->run.resume;
    return b->resumes ? go_on(b, err) : 0;
}

/* ---- running ---- */

static int emit_head(struct mf_run *run, struct bc *b, struct mf_err *err)
{
    struct mf_frame *head = mf_frame_head(b->rundir.path, "", b->seed);
    mf_policy_spec_to_head(&b->policy.spec, head);
    int rc = mf_run_join(run, b->rundir.path, b->resumes, err);
    mf_run_sign(run, head);
    rc = rc ? rc : mf_emit(run, head, err);
    if (rc == 0) {
        mf_rundir_accepted(&b->rundir);
        mf_run_accepted(run);
    }
    if (rc == 0)
        rc =
            mf_journal_open(&b->journal, b->rundir.path, head, (b->optimizer.minibatches + STRETCH - 1) / STRETCH, err);
    if (rc == 0)
        b->began = mf_now() - mf_journal_spent(b->journal);
    mf_frame_free(head);
    return rc;
}

static int alloc_rows(float **to, const struct bc *b, int width, struct mf_err *err)
{
    size_t row = (size_t)width * sizeof **to;
    if ((size_t)b->batch_size > SIZE_MAX / row)
        return mf_err_set(err, MF_ENOMEM, "a minibatch of %lld samples does not fit into memory",
                          (long long)b->batch_size);
    return mf_alloc((void **)to, (size_t)b->batch_size * row, "a minibatch", err);
}

static int open_bc(struct mf_run *run, void *self, struct mf_err *err)
{
    struct bc *b = self;
    b->rundir.lock = -1;
    b->saved_at = b->told_at = mf_now();
    b->opts = (struct mf_clone_opts){.loss = (enum mf_clone_loss)b->loss,
                                     .sampling = (enum mf_time_sampling)b->time_sampling,
                                     .dropout = (float)b->dropout,
                                     .seed = (uint64_t)b->seed};
    int rc = mf_engine_open(&b->engine, b->device, (int)b->threads, (enum mf_precision)b->precision, err);
    if (rc || (rc = read_data(run, b, err)) || (rc = mf_cloner_new(&b->cloner, b->engine, &b->policy, &b->opts, err)) ||
        (rc = mf_optimizer_init(&b->optimizer, b->engine, &b->policy.params,
                                &(struct mf_optimizer_opts){.average = true,
                                                            .weight_decay = b->weight_decay,
                                                            .patience = 1,
                                                            .rate = "clone.learning_rate",
                                                            .counter = "clone_step"},
                                err)) ||
        (rc = alloc_rows(&b->obs, b, b->policy.spec.net.O, err)) ||
        (rc = alloc_rows(&b->actions, b, b->policy.spec.net.D, err)))
        return rc;
    return (rc = open_folder(b, err)) ? rc : emit_head(run, b, err);
}

static double learning_rate(const struct bc *b)
{
    const int64_t step = b->optimizer.minibatches;
    if (step < b->warmup)
        return b->learning_rate * (double)(step + 1) / (double)b->warmup;
    return b->learning_rate * mf_lr_factor(MF_LR_COSINE, (double)(step - b->warmup), (double)(b->steps - b->warmup));
}

struct seen { /* of a stretch */
    double loss, grad_norm, lr;
};

static int minibatch(struct bc *b, struct seen *seen, struct mf_err *err)
{
    const int64_t at = b->optimizer.minibatches;
    const size_t n = (size_t)b->batch_size;
    double loss, lr = seen->lr = learning_rate(b);
    const struct mf_step step = {.lr = {[MF_GROUP_POLICY] = lr, [MF_GROUP_ENCODER] = lr},
                                 .ema_decay =
                                     b->ema_decay > 0 ? b->ema_decay : mf_ema_decay(at, 1, b->ema_power, b->ema_max)};
    struct mf_verdict v;
    float *grads;
    const uint32_t *drawn = mf_dataset_draw(&b->windows, (uint64_t)b->seed, at, n);
    int rc = mf_dataset_batch(&b->windows, n, drawn, b->obs, b->actions, err);
    if (rc || (rc = mf_cloner_run(b->cloner, at, n, NULL, b->obs, b->actions, b->optimizer.ema, &loss, &grads, err)) ||
        (rc = mf_optimizer_step(&b->optimizer, grads, &step, &v, err)))
        return rc;
    seen->loss += loss;
    seen->grad_norm += v.total;
    return 0;
}

/* Rows and lines at most one a second: a stretch is over in less. */
static void show(struct bc *b, double lr, double loss, double speed)
{
    const long long step = b->optimizer.minibatches, steps = b->steps;
    const double now = mf_now();
    if (!b->progress) {
        mf_log_live("minibatch %lld of %lld, loss %.4f, %.0f samples/s", step, steps, loss, speed);
        if (!mf_log_is_due(&b->told_at))
            return;
    } else if (now - b->told_at < 1 && step < steps) {
        return;
    }
    b->told_at = now;
    if (!isatty(STDERR_FILENO)) {
        mf_log(MF_LOG_INFO, "minibatch %lld of %lld in %.0f s, loss %.4f, %.0f samples/s", step, steps, now - b->began,
               loss, speed);
        return;
    }
    if (b->rows++ % 20 == 0)
        fprintf(stderr, "%9s %9s %8s %9s %9s %10s\n", "step", "of", "time", "loss", "lr", "samples/s");
    fprintf(stderr, "%9lld %9lld %7.1fs %9.4f %9.2e %10.0f\n", step, steps, now - b->began, loss, lr, speed);
}

static int report(struct mf_run *run, struct bc *b, const struct seen *seen, int64_t taken, double seconds,
                  struct mf_err *err)
{
    double loss = seen->loss / (double)taken, speed = (double)(taken * b->batch_size) / seconds;
    struct mf_frame *m = mf_frame_new(MF_METRICS);
    mf_frame_set_int(m, "iter", (b->optimizer.minibatches - 1) / STRETCH);
    mf_frame_set_int(m, "step", b->optimizer.minibatches);
    mf_frame_set_num(m, "time", mf_now() - b->began);
    mf_frame_set_num(m, "values.train/loss", loss);
    mf_frame_set_num(m, "values.train/lr", seen->lr);
    mf_frame_set_num(m, "values.train/grad_norm", seen->grad_norm / (double)taken);
    mf_frame_set_num(m, "values.perf/samples_per_s", speed);
    show(b, seen->lr, loss, speed);
    int rc = mf_journal_put(b->journal, m, err);
    if (rc == 0)
        rc = mf_emit(run, m, err);
    mf_frame_free(m);
    return rc;
}

static int work(struct mf_run *run, void *self, struct mf_err *err)
{
    struct bc *b = self;
    struct seen seen = {0};
    int64_t first = b->optimizer.minibatches, end = (first / STRETCH + 1) * STRETCH;
    double start = mf_now();
    int rc = 0;
    while (rc == 0 && b->optimizer.minibatches < end && b->optimizer.minibatches < b->steps)
        rc = minibatch(b, &seen, err);
    if (rc == 0 && b->optimizer.minibatches > first)
        rc = report(run, b, &seen, b->optimizer.minibatches - first, mf_now() - start, err);
    if (rc == 0 && mf_now() - b->saved_at > SAVE_SECONDS)
        rc = save(b, err);
    return rc ? rc : b->optimizer.minibatches < b->steps;
}

static void say_end(const struct bc *b)
{
    if (b->optimizer.minibatches < b->steps)
        mf_log(MF_LOG_INFO,
               "stopped at %lld of %lld minibatches; what is cloned so far is %s (run.resume=auto goes on)",
               (long long)b->optimizer.minibatches, (long long)b->steps, b->path);
    else
        mf_log(MF_LOG_INFO, "%lld minibatches; the clone is %s", (long long)b->optimizer.minibatches, b->path);
}

static int close_bc(struct mf_run *run, void *self, int rc, struct mf_err *err)
{
    struct bc *b = self;
    (void)run;
    bool whole = b->journal && (rc == 0 || rc == MF_STOPPED || rc == MF_CLOSED);
    int late = whole && (b->saved < b->optimizer.minibatches || b->optimizer.minibatches == 0) ? save(b, err) : 0;
    mf_log_live("%s", "");
    if (whole && late == 0)
        say_end(b);
    int shut = mf_journal_close(b->journal, rc == 0 && b->optimizer.minibatches == b->steps, err);
    mf_cloner_free(b->cloner);
    mf_optimizer_release(&b->optimizer);
    mf_dataset_close(&b->windows);
    mf_demos_close(&b->demos);
    mf_policy_release(&b->policy);
    mf_engine_close(b->engine);
    mf_rundir_close(&b->rundir);
    free(b->obs);
    free(b->actions);
    return late ? late : shut;
}

static const struct mf_stage stage = {
    .name = "bc",
    .summary = "Clone a flow policy from demonstrations.",
    .examples = "  mf-bc clone.dataset=demos.hdf5 run.dir=outputs/clone\n"
                "  mf-bc clone.dataset=low_dim.hdf5 clone.filter_key=train clone.loss=shortcut \\\n"
                "      policy.network=shortcut_mlp policy.cond_hidden=[64,16]\n",
    .role = MF_SOURCE,
    .watched = true,
    .metrics = true,
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
