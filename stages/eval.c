/* mf-eval: checkpoints on fixed trials: a table, metrics frames, a JSON file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/publish.h"
#include "data/json.h"
#include "flow/spec.h"
#include "rl/eval.h"
#include "stage/rundir.h"
#include "stage/stage.h"

struct eval {
    struct mf_env_opts env_opts;
    const char *checkpoint, *device, *json_path;
    int64_t max_steps, trials, seed, num_envs, steps, threads, video;
    int weights, precision, video_format;
    struct mf_policy_opts policy_opts;

    const struct mf_env *env;
    struct mf_engine *engine;
    struct mf_trial *trial; /* (trials) */
    FILE *json, *table;
    char *json_part;
    int next; /* of the checkpoints */
    double began;
};

static const struct mf_bind binds[] = {
    {"policy.checkpoint", offsetof(struct eval, checkpoint)},
    {"policy.weights", offsetof(struct eval, weights)},
    {"eval.num_episodes", offsetof(struct eval, trials)},
    {"eval.seed", offsetof(struct eval, seed)},
    {"eval.num_envs", offsetof(struct eval, num_envs)},
    {"eval.num_inference_steps", offsetof(struct eval, steps)},
    {"eval.json", offsetof(struct eval, json_path)},
    {"eval.video", offsetof(struct eval, video)},
    {"eval.video_format", offsetof(struct eval, video_format)},
    MF_ENV_BINDS(struct eval, env_opts),
    {"env.max_steps", offsetof(struct eval, max_steps)},
    MF_POLICY_BINDS(struct eval, policy_opts),
    {"device", offsetof(struct eval, device)},
    {"precision", offsetof(struct eval, precision)},
    {"threads", offsetof(struct eval, threads)},
    {0},
};

/* ---- results ---- */

static int open_json(struct eval *e, struct mf_err *err)
{
    if (!e->json_path)
        return 0;
    if (!(e->json_part = mf_publish_part(e->json_path, err)))
        return err->code;
    if (!(e->json = fopen(e->json_part, "we")))
        return mf_err_errno(err, "cannot create '%s'", e->json_part);
    fputs("{\"env\": ", e->json);
    mf_json_text(e->env->name, strlen(e->env->name), e->json);
    fprintf(e->json, ", \"seed\": %lld, \"results\": [", (long long)e->seed);
    return 0;
}

static void json_rate(FILE *to, const char *name, struct mf_rate r)
{
    fprintf(to, ", \"%s\": %.9g, \"%s_low\": %.9g, \"%s_high\": %.9g", name, r.rate, name, r.low, name, r.high);
}

static void write_json(const struct eval *e, const char *path, const char *weights, const struct mf_policy *p,
                       const struct mf_score_sheet *s)
{
    FILE *to = e->json;
    int n = (int)e->trials;
    fputs(e->next ? ",\n{\"checkpoint\": " : "\n{\"checkpoint\": ", to);
    mf_json_text(path, strlen(path), to);
    fprintf(to, ", \"weights\": \"%s\", \"iter\": %lld, \"step\": %lld, \"n\": %d", weights, (long long)p->iter,
            (long long)p->global_step, n);
    json_rate(to, "success_once", s->success_once);
    json_rate(to, "success_at_end", s->success_at_end);
    fprintf(to, ", \"return\": %.9g, \"return_std\": %.9g, \"length\": %.9g,\n \"trials\": {\"success_once\": [",
            s->ret, s->ret_std, s->length);
    for (int i = 0; i < n; i++)
        fprintf(to, "%s%d", i ? "," : "", e->trial[i].success_once);
    fputs("], \"success_at_end\": [", to);
    for (int i = 0; i < n; i++)
        fprintf(to, "%s%d", i ? "," : "", e->trial[i].success_at_end);
    fputs("], \"return\": [", to);
    for (int i = 0; i < n; i++)
        fprintf(to, "%s%.9g", i ? "," : "", (double)e->trial[i].ret);
    fputs("], \"length\": [", to);
    for (int i = 0; i < n; i++)
        fprintf(to, "%s%d", i ? "," : "", e->trial[i].length);
    fputs("]}}", to);
}

static void write_row(const struct eval *e, const char *path, const char *weights, const struct mf_score_sheet *s)
{
    const struct mf_rate *a = &s->success_once, *b = &s->success_at_end;
    if (e->next == 0)
        fprintf(e->table, "%6s  %-20s  %-20s %7s %6s %-7s  file\n", "trials", "success once, 95 %", "at the end, 95 %",
                "return", "length", "weights");
    fprintf(e->table, "%6lld  %.3f [%.3f, %.3f]  %.3f [%.3f, %.3f] %7.3f %6.1f %-7s  %s\n", (long long)e->trials,
            a->rate, a->low, a->high, b->rate, b->low, b->high, s->ret, s->length, weights, path);
    fflush(e->table);
}

static int emit_metrics(struct mf_run *run, const struct eval *e, const char *path, const struct mf_policy *p,
                        const struct mf_score_sheet *s, struct mf_err *err)
{
    const struct {
        const char *name;
        double value;
    } row[] = {{"values.eval/n", (double)e->trials},
               {"values.eval/success_once", s->success_once.rate},
               {"values.eval/success_once_low", s->success_once.low},
               {"values.eval/success_once_high", s->success_once.high},
               {"values.eval/success_at_end", s->success_at_end.rate},
               {"values.eval/success_at_end_low", s->success_at_end.low},
               {"values.eval/success_at_end_high", s->success_at_end.high},
               {"values.eval/return", s->ret},
               {"values.eval/return_std", s->ret_std},
               {"values.eval/length", s->length}};
    struct mf_frame *m = mf_frame_new(MF_METRICS);
    mf_frame_set_int(m, "iter", p->iter);
    mf_frame_set_int(m, "step", p->global_step);
    mf_frame_set_num(m, "time", mf_now() - e->began);
    mf_frame_set_str(m, "checkpoint", path);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        mf_frame_set_num(m, row[i].name, row[i].value);
    int rc = mf_emit(run, m, err);
    mf_frame_free(m);
    return rc;
}

/* ---- one checkpoint ---- */

/* The policy of a file, under the words that were given on top. */
static int load(const struct mf_run *run, struct eval *e, const char *path, struct mf_policy *p, const char **weights,
                struct mf_err *err)
{
    const struct mf_names *keys = &e->policy_opts.obs_keys;
    struct mf_layout obs;
    struct mf_policy_spec spec;
    struct mf_loaded *l;
    int rc = mf_checkpoint_open(&l, path, err);
    if (rc)
        return rc;
    rc = mf_env_layout(e->env, keys->n, keys->v, &mf_loaded_spec(l)->obs, &obs, err);
    mf_env_points(e->env, &obs, rc ? 0 : (int)e->env_opts.num_points);
    if (rc == 0)
        rc = mf_policy_spec_adopt(&spec, l, mf_run_conf(run), &e->policy_opts, &obs, e->env->action_dim, err);
    if (e->steps)
        spec.K = (int)e->steps;
    if (rc == 0 && (rc = mf_policy_init(p, &spec, err)) == 0 &&
        (rc = mf_loaded_policy(l, p, (enum mf_weights)e->weights, err)))
        mf_policy_release(p);
    if (rc == 0)
        *weights = mf_loaded_uses_ema(l, &p->params, (enum mf_weights)e->weights) ? "ema" : "raw";
    mf_checkpoint_close(l);
    return rc;
}

/* RUN/checkpoints/000100.safetensors -> RUN/videos/000100.mp4; elsewhere, beside the checkpoint. */
static int write_video(const struct eval *e, const char *checkpoint, struct mf_reel *reel, struct mf_err *err)
{
    char path[MF_PATH_MAX + 16];
    bool good[64];
    const char *name = strrchr(checkpoint, '/') ? strrchr(checkpoint, '/') + 1 : checkpoint;
    int folder = (int)(name - checkpoint), stem = (int)strcspn(name, ".");
    if (folder >= 12 && !strncmp(name - 12, "checkpoints/", 12))
        snprintf(path, sizeof path, "%.*svideos/%.*s", folder - 12, checkpoint, stem, name);
    else
        snprintf(path, sizeof path, "%.*s%.*s", folder, checkpoint, stem, name);
    snprintf(path + strlen(path), sizeof path - strlen(path), e->video_format ? ".gif" : ".mp4");
    for (int i = 0; i < e->video; i++)
        good[i] = e->trial[i].success_once;
    int rc = mf_reel_play(reel, path, good, err);
    if (rc == 0)
        mf_log(MF_LOG_INFO, "%s shows the first %lld trials", path, (long long)e->video);
    return rc;
}

static int evaluate(struct mf_run *run, struct eval *e, const char *path, struct mf_err *err)
{
    struct mf_policy p;
    struct mf_sampler *sampler = NULL;
    struct mf_reel *reel = NULL;
    const char *weights;
    int rc = load(run, e, path, &p, &weights, err);
    if (rc)
        return rc;
    if (e->video && (rc = mf_reel_new(&reel, e->env, (int)e->video, err)))
        goto out;
    struct mf_eval_opts o = {.env = e->env,
                             .trials = (int)e->trials,
                             .num_envs = (int)e->num_envs,
                             .threads = (int)e->threads,
                             .max_steps = (int)e->max_steps,
                             .seed = (uint64_t)e->seed,
                             .reel = reel};
    if ((rc = mf_sampler_new(&sampler, e->engine, &p, true, err)) == 0)
        rc = mf_eval(&o, &p, sampler, e->trial, err);
    mf_sampler_free(sampler);
    if (rc == 0) {
        struct mf_score_sheet s = mf_eval_sum(e->trial, o.trials);
        write_row(e, path, weights, &s);
        if (e->json)
            write_json(e, path, weights, &p, &s);
        rc = emit_metrics(run, e, path, &p, &s, err);
    }
    if (rc == 0 && reel)
        rc = write_video(e, path, reel, err);
out:
    mf_reel_free(reel);
    mf_policy_release(&p);
    return rc;
}

/* ---- the stage ---- */

static int emit_head(struct mf_run *run, const struct eval *e, struct mf_err *err)
{
    struct mf_frame *head = mf_frame_new(MF_HEAD);
    mf_frame_set_int(head, "v", 1);
    mf_frame_set_str(head, "run", "");
    mf_frame_set_str(head, "src", "");
    mf_frame_set_int(head, "seed", e->seed);
    mf_frame_set_str(head, "spec.env", e->env->name);
    int rc = mf_emit(run, head, err);
    mf_frame_free(head);
    return rc;
}

static int begin(struct mf_run *run, void *self, struct mf_err *err)
{
    struct eval *e = self;
    int n, rc;
    mf_run_operands(run, &n);
    if (n == 0 && !e->checkpoint)
        return mf_err_set(err, MF_EUSAGE, "name a checkpoint or a run's folder, or give policy.checkpoint");
    e->video = e->video < e->trials ? e->video : e->trials;
    if (e->trials > 1 << 20)
        return mf_err_set(err, MF_EUSAGE, "eval.num_episodes=%lld is more than %d", (long long)e->trials, 1 << 20);
    e->table = mf_run_on_terminal(run) ? stdout : stderr;
    e->began = mf_now();
    e->trial = mf_xcalloc((size_t)e->trials, sizeof *e->trial);
    e->env_opts.warn = mf_log_warn;
    if ((rc = mf_env_open(&e->env, &e->env_opts, err)) ||
        (rc = mf_engine_open(&e->engine, e->device, (int)e->threads, (enum mf_precision)e->precision, err)) ||
        (rc = open_json(e, err)))
        return rc;
    return emit_head(run, e, err);
}

static int work(struct mf_run *run, void *self, struct mf_err *err)
{
    struct eval *e = self;
    char newest[MF_PATH_MAX];
    struct stat st;
    int n;
    const char *const *operands = mf_run_operands(run, &n);
    const char *path = n ? operands[e->next] : e->checkpoint;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        if (!mf_rundir_newest(path, newest))
            return mf_err_set(err, MF_EUSAGE, "'%s' is no run's folder with checkpoints in it", path);
        path = newest;
    }
    int rc = evaluate(run, e, path, err);
    e->next++;
    return rc ? rc : e->next < n;
}

static int close_json(struct eval *e, bool keep, struct mf_err *err)
{
    int rc = 0;
    if (e->json) {
        fputs("\n]}\n", e->json);
        bool failed = ferror(e->json);
        if (fclose(e->json) || failed)
            rc = mf_err_errno(err, "cannot write '%s'", e->json_part);
        if (rc == 0 && keep)
            rc = mf_publish(e->json_part, e->json_path, err);
        else
            remove(e->json_part);
    }
    free(e->json_part);
    return rc;
}

static int finish(struct mf_run *run, void *self, int rc, struct mf_err *err)
{
    (void)run;
    struct eval *e = self;
    int rc2 = close_json(e, rc == 0 && !mf_stop_signal(), err);
    mf_env_close(e->env);
    if (e->engine)
        mf_engine_close(e->engine);
    free(e->trial);
    return rc2;
}

static const struct mf_stage stage = {
    .name = "eval",
    .summary = "Evaluate checkpoints on fixed trials, with 95 % intervals.",
    .operands = "CHECKPOINT|RUN ...",
    .examples = "  mf-eval env=lift outputs/lift/latest eval.json=after.json\n"
                "  mf-eval env=lift runs/*/checkpoints/000100.safetensors >results.mf\n",
    .role = MF_SOURCE,
    .watched = true,
    .binds = binds,
    .size = sizeof(struct eval),
    .open = begin,
    .work = work,
    .close = finish,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
