/* mf-collect: run environments with the flow policy, or with a scripted expert, and write rollouts. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "env/words.h"
#include "eval/policy_in.h"
#include "flow/checkpoint.h"
#include "flow/frames.h"
#include "flow/sampler.h"
#include "learn/source.h"
#include "rl/slices.h"
#include "stage/rundir.h"
#include "stage/stage.h"
#include "wire/edge.h"

enum { EXPERT_GROUP = 64 };
enum { ACTOR_POLICY, ACTOR_EXPERT };

struct collect {
    struct mf_env_opts env_opts;
    const char *checkpoint, *address, *device;
    int64_t seed, max_steps, threads, num_envs, steps, total, slices, group, episodes, shift, save_every;
    int who, reward_scale, precision, weights;
    bool freeze_encoder;
    double gamma, expert_error;
    struct mf_names obs_keys;
    struct mf_rundir_opts run;

    struct mf_loaded *start; /* the initial checkpoint, until a policy arrives; NULL: none */
    bool resumes;            /* it is the run's newest checkpoint */
    char from[MF_PATH_MAX];  /* its path */
    const struct mf_env *env;
    struct mf_rundir rundir;
    char own_address[MF_PATH_MAX + 32];
    struct mf_engine *engine;
    struct mf_policy policy;
    struct mf_sampler *sampler;
    struct mf_actor actor;
    struct mf_source source;
};

static const struct mf_bind binds[] = {
    {"env.max_steps", offsetof(struct collect, max_steps)},
    {"collect.actor", offsetof(struct collect, who)},
    {"collect.episodes", offsetof(struct collect, episodes)},
    {"collect.expert_error", offsetof(struct collect, expert_error)},
    {"collect.slices", offsetof(struct collect, slices)},
    {"collect.group", offsetof(struct collect, group)},
    {"collect.max_lag", offsetof(struct collect, source.max_lag)},
    {"collect.reward_scale", offsetof(struct collect, reward_scale)},
    {"collect.policy_address", offsetof(struct collect, address)},
    {"collect.policy_timeout", offsetof(struct collect, source.timeout)},
    {"collect.src", offsetof(struct collect, source.src)},
    {"training.num_envs", offsetof(struct collect, num_envs)},
    {"training.num_steps_per_rollout", offsetof(struct collect, steps)},
    {"training.total_timesteps", offsetof(struct collect, total)},
    {"training.save_every", offsetof(struct collect, save_every)},
    {"training.freeze_encoder", offsetof(struct collect, freeze_encoder)},
    {"training.shift", offsetof(struct collect, shift)},
    {"advantage.gamma", offsetof(struct collect, gamma)},
    {"run.seed", offsetof(struct collect, seed)},
    {"policy.checkpoint", offsetof(struct collect, checkpoint)},
    {"policy.weights", offsetof(struct collect, weights)},
    {"policy.obs_keys", offsetof(struct collect, obs_keys)},
    {"device", offsetof(struct collect, device)},
    {"precision", offsetof(struct collect, precision)},
    {"threads", offsetof(struct collect, threads)},
    {0},
};
static const struct mf_bind_table tables[] = {{mf_policy_binds, 0},
                                              {mf_env_binds, offsetof(struct collect, env_opts)},
                                              {mf_rundir_binds, offsetof(struct collect, run)},
                                              {0}};

/* ---- setting up ---- */

/* The named environment, or that of the initial checkpoint. */
static int open_env(struct mf_run *run, struct collect *c, struct mf_err *err)
{
    const bool named = mf_conf_was_set(mf_run_conf(run), "env.name");
    c->env_opts.warn = mf_log_warn;
    if (c->who == ACTOR_EXPERT)
        return mf_env_open(&c->env, &c->env_opts, err);
    c->resumes = c->run.resume && !c->address && c->run.dir && mf_runs_newest(c->run.dir, c->from);
    const char *from = c->resumes || c->checkpoint ? c->from : NULL;
    int rc = c->checkpoint && !c->resumes ? mf_runs_checkpoint(c->checkpoint, c->from, err) : 0;
    if (rc || (from && (rc = mf_checkpoint_open(&c->start, from, err))) ||
        (rc = mf_env_open_for(&c->env, &c->env_opts, named, from, from ? mf_loaded_spec(c->start)->env : "", err)))
        return rc;
    if (!named)
        c->env_opts.name = mf_run_assume(run, "env.name", c->env->name);
    return 0;
}

/* The seed of the run is the learner's; a named source draws different numbers from other sources. */
static uint64_t seed_of(const struct collect *c)
{
    return (uint64_t)c->seed ^ (*c->source.src ? mf_text_hash(c->source.src) : 0);
}

static struct mf_actor_opts actor_opts(const struct collect *c, const struct mf_layout *obs)
{
    const bool expert = c->who == ACTOR_EXPERT;
    return (struct mf_actor_opts){.vec = {.env = c->env,
                                          .obs = *obs,
                                          .N = (int)(expert ? EXPERT_GROUP : c->num_envs),
                                          .threads = (int)c->threads,
                                          .group = expert ? 1 : (int)c->group,
                                          .max_steps = (int)c->max_steps,
                                          .shift = expert ? 0 : (int)c->shift,
                                          .expert_error = (float)c->expert_error,
                                          .seed = seed_of(c),
                                          .reset_purpose = MF_RNG_RESET},
                                  .T = (int)(!expert        ? c->steps
                                             : c->max_steps ? c->max_steps
                                                            : c->env->max_steps),
                                  .reward_scale = c->reward_scale,
                                  .gamma = c->gamma,
                                  .encode = c->freeze_encoder};
}

/* An outline becomes a policy: of a resumed run that of its newest checkpoint; of a new one the learner sends all but
 * the frozen parameters that the initial checkpoint has. */
static int load(struct collect *c, enum mf_weights which, struct mf_err *err)
{
    struct mf_policy *p = &c->policy;
    int rc = mf_params_alloc(&p->params, err);
    if (rc == 0 && (c->resumes || *p->frozen))
        rc = mf_loaded_policy(c->start, p, which, err);
    if (!c->resumes)
        p->version = p->iter = p->global_step = 0;
    return rc;
}

/* At most: those that the learner may lose, and those of the lag. */
static double rounds_kept(struct mf_run *run, const struct collect *c, const struct mf_policy_spec *s)
{
    const double steps = (double)(c->num_envs * c->steps * s->n_action_steps);
    return mf_port_is_socket(mf_run_out(run))
               ? fmin((double)(c->save_every + c->source.max_lag), (double)c->total / steps + 1)
               : 0;
}

/* The policy's spec: that of the checkpoint, if any, overridden by the given words. */
static int open_policy(struct mf_run *run, struct collect *c, struct mf_err *err)
{
    const struct mf_loaded *l = c->start;
    const enum mf_weights which = c->resumes ? MF_WEIGHTS_RAW : (enum mf_weights)c->weights;
    struct mf_policy_spec spec;
    int rc = mf_policy_spec_in(&spec, c->env, &c->env_opts, l, &c->obs_keys, mf_run_conf(run), err);
    if (rc)
        return rc;
    if (!l)
        mf_policy_spec_warn(&spec, mf_log_warn);
    snprintf(spec.env, sizeof spec.env, "%s", c->env->name);
    const struct mf_actor_opts o = actor_opts(c, &spec.obs);
    if ((rc = mf_actor_check(&o, &spec, err)))
        return rc;
    struct mf_memory m = {.keys = {[MF_MEMORY_ACTIVATIONS] = "threads",
                                   [MF_MEMORY_ROWS] = "training.num_envs, training.num_steps_per_rollout and "
                                                      "training.save_every"},
                          .beside = "its environments"};
    if ((rc = mf_engine_open(&c->engine, c->device, (int)c->threads, (enum mf_precision)c->precision, err)))
        return rc;
    mf_engine_log(c->engine);
    if ((rc = mf_loaded_outline(l, &c->policy, &spec, mf_policy_frozen(&spec, c->freeze_encoder),
                                mf_engine_in_host(c->engine), which, err)) ||
        (rc = mf_actor_memory(c->engine, &c->policy, &o, rounds_kept(run, c, &spec), MF_SLICE_BYTES, &m, err)) ||
        (rc = mf_memory_say(&m, NULL, err)) || (rc = load(c, which, err)))
        return rc;
    c->source.iter = c->source.made = c->policy.iter;
    mf_checkpoint_close(c->start);
    c->start = NULL;
    return mf_sampler_new(&c->sampler, c->engine, &c->policy, false, err);
}

static int choose_address(struct collect *c, struct mf_err *err)
{
    if (c->address)
        return 0;
    c->address = c->own_address;
    return mf_rundir_socket(c->rundir.path, c->own_address, sizeof c->own_address, err);
}

static int emit_head(struct mf_run *run, struct collect *c, struct mf_err *err)
{
    struct mf_frame *head = mf_frame_head(c->rundir.path, c->source.src, c->seed);
    mf_frame_set_int(head, "max_lag", c->source.max_lag);
    mf_frame_set_int(head, "steps", c->actor.opts.T);
    mf_frame_set_int(head, "num_envs", c->actor.N);
    if (c->address)
        mf_frame_set_str(head, "policy_address", c->address);
    if (c->sampler && c->checkpoint)
        mf_frame_set_str(head, "checkpoint", c->resumes ? c->checkpoint : c->from);
    else if (c->sampler && c->env->likes)
        mf_frame_set_str(head, "defaults", c->env->likes);
    if (c->source.made > 0)
        mf_frame_set_int(head, "iter", c->source.made); /* a resumed run: the learner resumes, too */
    if (c->source.begun)
        mf_frame_set_int(head, "kept", c->policy.saved);
    mf_frame_set_str(head, "spec.env", c->env->name);
    mf_frame_set_str(head, "spec.robomimic_name", c->env->robomimic_name ? c->env->robomimic_name : c->env->name);
    mf_frame_set_num(head, "spec.control_hz", c->env->control_hz);
    char *tasks = mf_words_lines(c->env);
    if (tasks)
        mf_frame_set_str(head, "tasks", tasks);
    free(tasks);
    if (c->sampler)
        mf_policy_spec_to_head(&c->policy.spec, head);
    if (*c->policy.frozen)
        mf_frame_set_str(head, "policy.frozen", c->policy.frozen);
    if (c->actor.encoding >= 0)
        mf_frame_set_bool(head, "encoded", true);
    int rc = mf_emit(run, head, err);
    mf_frame_free(head);
    return rc;
}

static int open_collect(struct mf_run *run, void *self, struct mf_err *err)
{
    struct collect *c = self;
    bool expert = c->who == ACTOR_EXPERT;
    int rc;
    c->rundir.lock = -1;
    c->source.src = c->source.src ? c->source.src : "";
    if ((rc = open_env(run, c, err)))
        return rc;
    if (expert && !c->env->expert)
        return mf_err_set(err, MF_EUSAGE, "collect.actor=expert: env=%s has no expert", c->env->name);
    c->run.task = c->env->name;
    if (!expert && !c->address &&
        (rc = mf_rundir_open(&c->rundir, &c->run, err))) /* otherwise the learner has the folder */
        return rc;
    if (!expert && ((rc = open_policy(run, c, err)) ||
                    (rc = mf_run_join(run, c->rundir.path, c->source.iter > 0, err)) || (rc = choose_address(c, err))))
        return rc;
    if (expert && c->episodes < 1)
        c->episodes = c->num_envs;
    struct mf_layout obs = c->policy.spec.obs;
    if (expert && (rc = mf_policy_obs(&obs, c->env, &c->env_opts, &c->obs_keys, NULL, false, err)))
        return rc;
    const struct mf_actor_opts o = actor_opts(c, &obs);
    if ((rc = mf_actor_init(&c->actor, &o, expert ? NULL : &c->policy, c->sampler, err)) ||
        (!expert && (rc = mf_edge_connect(&c->source.edge, c->address, mf_run_wire(run), err))))
        return rc;
    if (!expert)
        mf_port_resends(mf_run_out(run), 0);
    if (mf_columns_env_bytes(&c->actor.columns) > MF_SLICE_BYTES)
        mf_log(MF_LOG_WARN,
               "the smallest rollout frame, one environment, takes %zu MiB: readers in Python need max_buffer_size=0",
               mf_columns_env_bytes(&c->actor.columns) >> 20);
    c->source.actor = &c->actor;
    c->source.policy = &c->policy;
    return emit_head(run, c, err);
}

/* ---- iterations ---- */

/* The learner has replied: the run is accepted. */
static void begin_run(struct mf_run *run, struct collect *c)
{
    if (*c->rundir.path)
        mf_rundir_accepted(&c->rundir);
    mf_run_accepted(run);
}

static int fetch(struct mf_run *run, struct collect *c, int64_t version, struct mf_err *err)
{
    const bool begun = c->source.begun;
    int rc = mf_source_fetch(run, &c->source, version, err);
    if (rc == MF_SOURCE_HEAD)
        return (rc = emit_head(run, c, err)) ? rc : 1;
    if (c->source.begun && !begun)
        begin_run(run, c);
    return rc;
}

/* Runs groups of environments, each for its first episode: taking the episodes that end first would prefer easy
 * ones. */
static int work_expert(struct mf_run *run, struct collect *c, struct mf_err *err)
{
    struct mf_actor_opts o = c->actor.opts;
    int64_t first = c->source.iter * EXPERT_GROUP, left = c->episodes - first;
    int rc;
    o.vec.first_env = (int)first;
    o.vec.N = (int)(left < EXPERT_GROUP ? left : EXPERT_GROUP);
    mf_actor_release(&c->actor);
    if ((rc = mf_actor_init(&c->actor, &o, NULL, NULL, err)) || (rc = mf_actor_rollout(&c->actor, err)) ||
        (rc = mf_source_send(run, &c->source, c->slices, err)))
        return rc;
    mf_log_live("%lld of %lld episodes", (long long)(first + o.vec.N), (long long)c->episodes);
    return first + o.vec.N < c->episodes;
}

static int work(struct mf_run *run, void *self, struct mf_err *err)
{
    struct collect *c = self;
    int rc;
    if (c->who == ACTOR_EXPERT)
        return work_expert(run, c, err);
    struct mf_source *q = &c->source;
    const int64_t version = mf_source_due(q);
    if ((rc = fetch(run, c, version, err)))
        return rc;
    if (q->iter < q->made)
        return (rc = mf_source_send_again(run, q, err)) ? rc : 1;
    const bool over = c->actor.global_step >= c->total || c->policy.global_step >= c->total;
    if (over && q->iter == q->first && q->iter > 0)
        mf_log(MF_LOG_INFO, "the run has already reached training.total_timesteps=%lld: raise it to continue",
               (long long)c->total);
    if (over) /* the sent frames are still used */
        return version < q->iter && q->met ? fetch(run, c, q->iter, err) : 0;
    if ((rc = mf_actor_rollout(&c->actor, err)))
        return rc; /* 1 again: an incomplete round is discarded */
    return (rc = mf_source_send(run, q, c->slices, err)) ? rc : 1;
}

static int close_collect(struct mf_run *run, void *self, int rc, struct mf_err *err)
{
    struct collect *c = self;
    (void)run, (void)rc, (void)err;
    mf_edge_close(c->source.edge);
    mf_source_release(&c->source);
    mf_actor_release(&c->actor);
    mf_env_close(c->env);
    mf_checkpoint_close(c->start);
    mf_sampler_free(c->sampler);
    mf_policy_release(&c->policy);
    mf_engine_close(c->engine);
    mf_rundir_close(&c->rundir);
    return 0;
}

static const struct mf_stage stage = {
    .name = "collect",
    .summary = "Run environments with the flow policy (or a scripted expert) and write rollouts.",
    .examples = "  mf-collect | mf-gae | mf-ppo\n"
                "  mf-collect env=lift collect.actor=expert collect.episodes=200 | mf-record demos.hdf5\n",
    .role = MF_SOURCE,
    .binds = binds,
    .tables = tables,
    .size = sizeof(struct collect),
    .open = open_collect,
    .work = work,
    .close = close_collect,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
