/* mf-eval: checkpoints on fixed trials: a table, metrics frames, files of JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "env/words.h"
#include "flow/checkpoint.h"
#include "flow/frames.h"
#include "flow/sampler.h"
#include "run/film.h"
#include "eval/env_in.h"
#include "eval/policy_in.h"
#include "eval/results.h"
#include "eval/results_json.h"
#include "eval/table.h"
#include "stage/rundir.h"
#include "stage/stage.h"

struct eval {
    struct mf_env_opts env_opts;
    const char *checkpoint, *device, *json_path;
    const char *results_path;
    struct mf_ints seeds, steps;
    struct mf_names suites;
    int64_t max_steps, trials, num_envs, threads, video;
    int weights, precision, video_format, format;
    bool compare, tasks;
    struct mf_names obs_keys;

    struct mf_conf *was; /* configuration of the evaluated run; NULL: none */
    const struct mf_env *env;
    struct mf_engine *engine;
    struct mf_trial *trial, *first; /* (seeds, trials) of a row; (rows, seeds, trials) of the first checkpoint */
    struct mf_results *results;
    struct mf_table table;
    struct mf_results_json json;
    int next, found; /* rows; results read from eval.results */
    double began;
};

static const struct mf_bind binds[] = {
    {"policy.checkpoint", offsetof(struct eval, checkpoint)},
    {"policy.weights", offsetof(struct eval, weights)},
    {"eval.num_episodes", offsetof(struct eval, trials)},
    {"eval.seed", offsetof(struct eval, seeds)},
    {"eval.suites", offsetof(struct eval, suites)},
    {"eval.num_envs", offsetof(struct eval, num_envs)},
    {"eval.num_inference_steps", offsetof(struct eval, steps)},
    {"eval.json", offsetof(struct eval, json_path)},
    {"eval.results", offsetof(struct eval, results_path)},
    {"eval.format", offsetof(struct eval, format)},
    {"eval.compare", offsetof(struct eval, compare)},
    {"eval.tasks", offsetof(struct eval, tasks)},
    {"eval.video", offsetof(struct eval, video)},
    {"eval.video_format", offsetof(struct eval, video_format)},
    {"env.max_steps", offsetof(struct eval, max_steps)},
    {"policy.obs_keys", offsetof(struct eval, obs_keys)},
    {"device", offsetof(struct eval, device)},
    {"precision", offsetof(struct eval, precision)},
    {"threads", offsetof(struct eval, threads)},
    {0},
};
static const struct mf_bind_table tables[] = {
    {mf_policy_binds, 0}, {mf_env_binds, offsetof(struct eval, env_opts)}, {0}};

/* ---- one checkpoint ---- */

/* Of the first policy, an outline. */
static int say_memory(const struct eval *e, struct mf_policy *p, struct mf_err *err)
{
    struct mf_memory m = {.keys = {[MF_MEMORY_ACTIVATIONS] = "threads", [MF_MEMORY_ROWS] = "eval.num_envs"},
                          .beside = "its environments"};
    struct mf_sampler *s = NULL;
    int rc = e->next ? 0 : mf_sampler_new(&s, e->engine, p, true, err);
    if (!s)
        return rc;
    mf_policy_memory(p, &m);
    mf_sampler_memory(s, (size_t)e->num_envs, &m);
    mf_sampler_free(s);
    return mf_memory_say(&m, NULL, err);
}

/* The policy of a file, overridden by the given words; steps 0: its own. */
static int load(const struct mf_run *run, struct eval *e, const char *path, int64_t steps, struct mf_policy *p,
                const char **weights, struct mf_err *err)
{
    struct mf_policy_spec spec;
    struct mf_loaded *l;
    int rc = mf_checkpoint_open(&l, path, err);
    if (rc)
        return rc;
    rc = mf_policy_spec_in(&spec, e->env, &e->env_opts, l, &e->obs_keys, mf_run_conf(run), err);
    if (steps)
        spec.K = (int)steps;
    if (rc == 0)
        rc = mf_loaded_outline(l, p, &spec, ~0u, mf_engine_in_host(e->engine), (enum mf_weights)e->weights, err);
    if (rc == 0 && ((rc = say_memory(e, p, err)) || (rc = mf_params_alloc(&p->params, err)) ||
                    (rc = mf_loaded_policy(l, p, (enum mf_weights)e->weights, err))))
        mf_policy_release(p);
    if (rc == 0)
        *weights = mf_loaded_uses_ema(l, &p->params, (enum mf_weights)e->weights) ? "ema" : "raw";
    mf_checkpoint_close(l);
    return rc;
}

/* Rows of a checkpoint: for each number of steps one for each suite. */
static int rows_of(const struct eval *e)
{
    return e->steps.n * (e->suites.n ? e->suites.n : 1);
}

static const char *suite_of(const struct eval *e, int row)
{
    return e->suites.n ? e->suites.v[row % e->suites.n] : NULL;
}

static int64_t steps_of(const struct eval *e, int row)
{
    return e->steps.v[e->suites.n ? row / e->suites.n : row];
}

/* Of several numbers of steps and suites: 000100-steps4-unseen.mp4. */
static int write_video(const struct eval *e, const char *checkpoint, int steps, const char *suite, struct mf_reel *reel,
                       struct mf_err *err)
{
    const char *format = e->video_format ? "gif" : "mp4";
    char path[MF_PATH_MAX + 64], ending[128], of[32] = "";
    bool good[64];
    if (e->steps.n > 1)
        snprintf(of, sizeof of, "-steps%d", steps);
    snprintf(ending, sizeof ending, "%s%s%s.%s", of, suite ? "-" : "", suite ? suite : "", format);
    mf_runs_video(checkpoint, ending, path, sizeof path);
    char *slash = strrchr(path, '/');
    if (slash) { /* videos/ may have been removed */
        *slash = '\0';
        mkdir(path, 0777);
        *slash = '/';
    }
    for (int i = 0; i < e->video; i++)
        good[i] = e->trial[i].success_once;
    int rc = mf_reel_play(reel, path, good, err);
    if (rc == 0)
        mf_log(MF_LOG_INFO, "%s shows the first %lld trials", path, (long long)e->video);
    return rc;
}

static int play(struct eval *e, const struct mf_result *r, struct mf_reel *reel, struct mf_err *err)
{
    struct mf_sampler *sampler = NULL;
    struct mf_eval_opts o = {.env = e->env,
                             .trials = r->n,
                             .num_envs = (int)e->num_envs,
                             .threads = (int)e->threads,
                             .max_steps = (int)e->max_steps,
                             .seed = (uint64_t)r->seed,
                             .reel = reel};
    int rc = mf_sampler_new(&sampler, e->engine, r->policy, true, err);
    if (rc == 0)
        rc = mf_eval(&o, r->policy, sampler, r->trial, err);
    mf_sampler_free(sampler);
    return rc;
}

/* The trials of one seed: from eval.results, or played and stored. Trials of a video are always played. */
static int find_or_play(struct mf_run *run, struct eval *e, struct mf_result *r, struct mf_reel *reel,
                        struct mf_err *err)
{
    bool known = e->results && mf_results_find(e->results, r);
    int rc = known && !reel ? 0 : play(e, r, reel, err);
    if (rc == 0 && e->results && !known)
        rc = mf_results_add(e->results, r, err);
    e->found += known;
    if (rc || (rc = mf_results_json_add(&e->json, r, err)))
        return rc;
    struct mf_frame *m = mf_result_metrics(r, mf_now() - e->began);
    rc = mf_emit(run, m, err);
    mf_frame_free(m);
    return rc;
}

/* Trials of the first policy with these steps, and of this one. */
static struct mf_pairs pairs_of(const struct eval *e, const struct mf_trial *first)
{
    struct mf_pairs pairs = {0};
    for (int i = 0; i < e->seeds.n * (int)e->trials; i++)
        mf_pairs_add(&pairs, first[i].success_once, (double)first[i].ret, e->trial[i].success_once,
                     (double)e->trial[i].ret);
    return pairs;
}

/* A row more for each task that the trials had. */
static void write_tasks(struct eval *e, const struct mf_table_row *all)
{
    const char *const *text = e->env->language.text;
    struct mf_table_row row = *all;
    row.against = NULL;
    for (int task = 0; text && text[task]; task++) {
        mf_eval_task(e->trial, all->n, task, &row.scores, &row.n);
        row.task = text[task];
        if (row.n)
            mf_table_row(&e->table, &row);
    }
}

/* Makes the row of e->trial; `at`: its index among those of a checkpoint. */
static void write_row(struct eval *e, const char *path, const char *weights, const struct mf_policy *p, int at)
{
    const int all = e->seeds.n * (int)e->trials;
    const bool reference = e->next < rows_of(e);
    struct mf_trial *first = e->compare ? e->first + (size_t)at * (size_t)all : NULL;
    struct mf_pairs against = {0};
    char digest[17];
    mf_policy_digest(p, digest);
    if (first && reference)
        memcpy(first, e->trial, (size_t)all * sizeof *first);
    else if (first)
        against = pairs_of(e, first);
    const struct mf_table_row row = {.checkpoint = path,
                                     .weights = weights,
                                     .digest = digest,
                                     .env = e->env->name,
                                     .suite = suite_of(e, at),
                                     .denoising_steps = p->spec.K,
                                     .seeds = e->seeds.n,
                                     .n = all,
                                     .scores = mf_eval_sum(e->trial, all),
                                     .against = first && !reference ? &against : NULL};
    mf_table_row(&e->table, &row);
    if (e->tasks)
        write_tasks(e, &row);
}

/* One policy with one number of steps, on the trials of all seeds. */
static int evaluate(struct mf_run *run, struct eval *e, const char *path, int at, struct mf_err *err)
{
    struct mf_policy p;
    struct mf_reel *reel = NULL;
    const char *weights;
    int rc = suite_of(e, at) ? mf_words_suite(&e->env, "eval.suites", suite_of(e, at), err) : 0;
    if (rc || (rc = load(run, e, path, steps_of(e, at), &p, &weights, err)))
        return rc;
    if (e->video)
        rc = mf_reel_new(&reel, e->env, (int)e->video, err);
    for (int i = 0; i < e->seeds.n && rc == 0; i++) {
        struct mf_result r = {.checkpoint = path,
                              .weights = weights,
                              .policy = &p,
                              .env = e->env->name,
                              .server = mf_env_server(&e->env_opts),
                              .suite = e->env->language.suite[0].name,
                              .tokenizer = mf_words_digest(e->env->words),
                              .tasks = e->env->language.text,
                              .program = "mf-eval " MF_VERSION,
                              .device = e->device,
                              .precision = mf_conf_text(mf_run_conf(run), "precision"),
                              .seed = e->seeds.v[i],
                              .max_steps = e->max_steps ? (int)e->max_steps : e->env->max_steps,
                              .n = (int)e->trials,
                              .trial = e->trial + i * e->trials};
        rc = find_or_play(run, e, &r, i ? NULL : reel, err);
    }
    if (rc == 0)
        write_row(e, path, weights, &p, at);
    if (rc == 0 && reel)
        rc = write_video(e, path, p.spec.K, suite_of(e, at), reel, err);
    mf_reel_free(reel);
    mf_policy_release(&p);
    return rc;
}

/* ---- the stage ---- */

static int emit_head(struct mf_run *run, const struct eval *e, struct mf_err *err)
{
    struct mf_frame *head = mf_frame_head("", "", e->seeds.v[0]);
    mf_frame_set_str(head, "spec.env", e->env->name);
    int rc = mf_emit(run, head, err);
    mf_frame_free(head);
    return rc;
}

/* The named environment, or the common environment of all checkpoints. */
static int open_env(struct mf_run *run, struct eval *e, int n, const char *const *words, struct mf_err *err)
{
    const struct mf_conf *now = mf_run_conf(run);
    if (n && mf_env_of_run(&e->env_opts, &e->max_steps, &e->was, now, words[0], err))
        return err->code;
    const bool named = mf_conf_was_set(now, "env.name") || mf_env_is_served(e->env_opts.name);
    e->env_opts.warn = mf_log_warn;
    const int rc = mf_env_of_all(&e->env, &e->env_opts, named, n, words, err);
    if (rc == 0 && !named && e->env)
        e->env_opts.name = mf_run_assume(run, "env.name", e->env->name);
    return rc;
}

static int begin(struct mf_run *run, void *self, struct mf_err *err)
{
    struct eval *e = self;
    int n, rc;
    const char *const *operands = mf_run_operands(run, &n);
    if (n == 0 && !e->checkpoint)
        return mf_err_set(err, MF_EUSAGE, "give a checkpoint or a run's folder, or policy.checkpoint");
    if (e->compare && n < 2)
        return mf_err_set(err, MF_EUSAGE, "eval.compare=true compares policies with the first one: give two or more");
    if (e->seeds.n == 0 || e->steps.n == 0)
        return mf_err_set(err, MF_EUSAGE, "eval.%s=[] is empty: nothing to evaluate",
                          e->seeds.n ? "num_inference_steps" : "seed");
    if ((rc = mf_runs_once(n, operands, err)))
        return rc;
    if (e->trials > 1 << 20)
        return mf_err_set(err, MF_EUSAGE, "eval.num_episodes=%lld is more than %d", (long long)e->trials, 1 << 20);
    e->video = e->video < e->trials ? e->video : e->trials;
    mf_table_init(&e->table, mf_run_on_terminal(run) ? stdout : stderr, (enum mf_table_format)e->format, e->compare);
    e->began = mf_now();
    const size_t row = (size_t)e->seeds.n * (size_t)e->trials * sizeof *e->trial;
    if ((rc = mf_alloc((void **)&e->trial, row, "trials", err)) ||
        (e->compare && (rc = mf_alloc((void **)&e->first, row * (size_t)rows_of(e), "trials to compare with", err))) ||
        (rc = open_env(run, e, n ? n : 1, n ? operands : &e->checkpoint, err)) ||
        (e->video && (rc = mf_film_check(err))) ||
        (rc = mf_engine_open(&e->engine, e->device, (int)e->threads, (enum mf_precision)e->precision, err)) ||
        (e->results_path && (rc = mf_results_open(&e->results, e->results_path, err))) ||
        (e->results_path && e->json_path && (rc = mf_file_apart(e->results_path, e->json_path, err))) ||
        (e->json_path &&
         (rc = mf_results_json_open(&e->json, e->json_path, e->env->name, e->seeds.n, e->seeds.v, err))))
        return rc;
    for (int i = e->suites.n; i-- > 0 && rc == 0;) /* a wrong name is reported at once, too */
        rc = mf_words_suite(&e->env, "eval.suites", e->suites.v[i], err);
    if (rc)
        return rc;
    if (e->tasks && !e->env->language.text)
        return mf_err_set(err, MF_EUSAGE,
                          "eval.tasks=true has a row for each task in words, and env=%s has none: leave it out",
                          e->env->name);
    mf_engine_log(e->engine);
    return emit_head(run, e, err);
}

/* A row of the table: checkpoint by checkpoint, each with all numbers of steps. */
static int work(struct mf_run *run, void *self, struct mf_err *err)
{
    struct eval *e = self;
    char path[MF_PATH_MAX];
    int n;
    const char *const *operands = mf_run_operands(run, &n);
    int rc = mf_runs_checkpoint(n ? operands[e->next / rows_of(e)] : e->checkpoint, path, err);
    if (rc == 0)
        rc = evaluate(run, e, path, e->next % rows_of(e), err);
    e->next++;
    return rc ? rc : e->next < (n ? n : 1) * rows_of(e);
}

static int finish(struct mf_run *run, void *self, int rc, struct mf_err *err)
{
    (void)run;
    struct eval *e = self;
    mf_table_end(&e->table);
    if (e->found)
        mf_log(MF_LOG_INFO, "%s already had %d of the results", e->results_path, e->found);
    int rc2 = mf_results_json_close(&e->json, rc == 0 && !mf_stop_signal(), err);
    mf_env_close(e->env);
    if (e->engine)
        mf_engine_close(e->engine);
    mf_results_close(e->results);
    mf_conf_free(e->was);
    free(e->trial);
    free(e->first);
    return rc2;
}

static const struct mf_stage stage = {
    .name = "eval",
    .summary = "Evaluate checkpoints on fixed trials, with 95 % intervals.",
    .operands = "CHECKPOINT|RUN ...",
    .examples = "  mf-eval outputs/lift/latest eval.json=after.json\n"
                "  mf-eval runs/*/checkpoints/000100.safetensors >results.mf\n"
                "  mf-eval clone ppo eval.num_inference_steps=[1,2,4] eval.results=lift.jsonl eval.compare=true\n",
    .role = MF_SOURCE,
    .watched = true,
    .binds = binds,
    .tables = tables,
    .size = sizeof(struct eval),
    .open = begin,
    .work = work,
    .close = finish,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
