#include "env/vec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "env/pool.h"

struct slot { /* one environment */
    void *state, *memory;
    float ret;
    bool success, ended; /* ended: waits for a reset */
};

struct mf_vec {
    struct mf_vec_opts o;
    const struct mf_env *env;
    int N, O, A, max_steps;
    struct mf_layout low; /* what the expert sees */
    void *model;
    struct slot *slot;
    float *obs, *final_obs, *ret, *expert_obs;
    int32_t *episode, *clock, *n_exec, *length;
    uint8_t *terminated, *truncated, *success, *step_success;
    float *rewards; /* (N, C), grown to the longest chunk seen */
    size_t reward_room;
    struct mf_pool *pool;
    /* the call's own */
    const float *actions;
    int C;
    bool autoreset;
};

/* ---- life ---- */

static int init_all(struct mf_vec *v, struct mf_err *err)
{
    const struct mf_env *e = v->env;
    int rc = e->open ? e->open(&v->model, err) : 0;
    for (int n = 0; rc == 0 && n < v->N; n++) {
        rc = e->init(&v->slot[n].state, v->model, v->max_steps, err);
        v->slot[n].memory = mf_xcalloc(1, e->expert_size);
    }
    return rc;
}

int mf_vec_new(struct mf_vec **out, const struct mf_vec_opts *o, struct mf_err *err)
{
    if (o->N < 1 || o->N > 1 << 20 || o->first_env < 0 || o->first_env > (1 << 24) - o->N)
        return mf_err_set(err, MF_EUSAGE,
                          "cannot run %d environments from number %d: 1 to %d are possible, numbers to %d", o->N,
                          o->first_env, 1 << 20, 1 << 24);
    struct mf_layout known;
    if (mf_env_layout(o->env, 0, NULL, &o->obs, &known, err))
        return err->code;
    struct mf_vec *v = mf_xcalloc(1, sizeof *v);
    size_t N = (size_t)o->N;
    v->o = *o;
    v->env = o->env;
    v->N = o->N;
    mf_env_layout(o->env, 0, NULL, NULL, &v->low, err);
    if (!v->o.obs.n)
        v->o.obs = v->low;
    v->O = v->o.obs.dim;
    v->A = o->env->action_dim;
    v->max_steps = o->max_steps ? o->max_steps : o->env->max_steps;
    v->slot = mf_xcalloc(N, sizeof *v->slot);
    v->obs = mf_xcalloc(N * (size_t)v->O, sizeof(float));
    v->final_obs = mf_xcalloc(N * (size_t)v->O, sizeof(float));
    v->expert_obs = mf_xcalloc((size_t)v->low.dim, sizeof(float));
    v->ret = mf_xcalloc(N, sizeof(float));
    v->episode = mf_xcalloc(N, sizeof(int32_t));
    v->clock = mf_xcalloc(N, sizeof(int32_t));
    v->n_exec = mf_xcalloc(N, sizeof(int32_t));
    v->length = mf_xcalloc(N, sizeof(int32_t));
    v->terminated = mf_xcalloc(N, 1);
    v->truncated = mf_xcalloc(N, 1);
    v->success = mf_xcalloc(N, 1);
    v->step_success = mf_xcalloc(N, 1);
    int threads = o->threads > v->N ? v->N : o->threads;
    int rc = init_all(v, err) || mf_pool_new(&v->pool, threads, err) ? err->code : 0;
    if (rc) {
        mf_vec_free(v);
        return rc;
    }
    mf_vec_reset(v, NULL);
    *out = v;
    return 0;
}

void mf_vec_free(struct mf_vec *v)
{
    if (!v)
        return;
    mf_pool_free(v->pool);
    for (int n = 0; n < v->N; n++) {
        if (v->slot[n].state)
            v->env->release(v->slot[n].state);
        free(v->slot[n].memory);
    }
    if (v->env->close && v->model)
        v->env->close(v->model);
    void *arrays[] = {v->slot,   v->obs,        v->final_obs, v->ret,     v->episode, v->clock,        v->n_exec,
                      v->length, v->terminated, v->truncated, v->success, v->rewards, v->step_success, v->expert_obs};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
    free(v);
}

/* ---- stepping ---- */

static void observe(const struct mf_vec *v, int n)
{
    mf_env_observe(v->env, v->slot[n].state, &v->o.obs, v->obs + (size_t)n * (size_t)v->O);
}

static void begin(void *vec, int n)
{
    struct mf_vec *v = vec;
    struct slot *s = &v->slot[n];
    struct mf_rng rng =
        mf_rng_at(v->o.seed, v->o.reset_purpose, (uint32_t)(v->o.first_env + n), (uint32_t)v->episode[n], 0);
    memset(s->memory, 0, v->env->expert_size);
    s->ret = 0;
    s->success = s->ended = false;
    v->clock[n] = 0;
    v->env->reset(s->state, &rng);
    observe(v, n);
}

const float *mf_vec_reset(struct mf_vec *v, const int32_t *episode)
{
    for (int n = 0; n < v->N; n++)
        v->episode[n] = episode ? episode[n] : 0;
    mf_pool_run(v->pool, begin, v, v->N);
    return v->obs;
}

static void step_one(void *vec, int n)
{
    struct mf_vec *v = vec;
    struct slot *s = &v->slot[n];
    size_t O = (size_t)v->O, C = (size_t)v->C, A = (size_t)v->A;
    float *obs = v->obs + (size_t)n * O, *reward = v->rewards + (size_t)n * C;
    const float *action = v->actions + (size_t)n * C * A;
    struct mf_step r = {0};
    int c = 0;
    memset(reward, 0, C * sizeof *reward);
    while (c < v->C && !s->ended) {
        r = v->env->step(s->state, action + (size_t)c * A);
        reward[c++] = r.reward;
        s->ret += r.reward;
        s->success |= r.success;
        s->ended = r.terminated || r.truncated;
        v->clock[n]++;
    }
    if (c > 0)
        observe(v, n);
    v->n_exec[n] = c;
    v->step_success[n] = r.success;
    v->terminated[n] = r.terminated;
    v->truncated[n] = r.truncated && !r.terminated;
    if (c == 0 || !s->ended)
        return;
    v->ret[n] = s->ret;
    v->length[n] = v->clock[n];
    v->success[n] = s->success;
    memcpy(v->final_obs + (size_t)n * O, obs, O * sizeof *obs);
    if (v->autoreset) {
        v->episode[n]++;
        begin(v, n);
    }
}

static bool all_finite(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

static int check_actions(const struct mf_vec *v, const float *actions, size_t row, struct mf_err *err)
{
    for (int n = 0; n < v->N; n++)
        if (!v->slot[n].ended && !all_finite(actions + (size_t)n * row, row))
            return mf_err_set(err, MF_EMATH, "an action for environment %d is not finite, in episode %d after %d steps",
                              v->o.first_env + n, v->episode[n], v->clock[n]);
    return 0;
}

static int check_observations(const struct mf_vec *v, struct mf_err *err)
{
    size_t O = (size_t)v->O;
    for (int n = 0; n < v->N; n++) {
        bool ended = v->terminated[n] || v->truncated[n];
        if (!all_finite(v->obs + (size_t)n * O, O) || (ended && !all_finite(v->final_obs + (size_t)n * O, O)))
            return mf_err_set(err, MF_EMATH,
                              "environment %d (%s) gave an observation that is not finite, near episode %d",
                              v->o.first_env + n, v->env->name, v->episode[n]);
    }
    return 0;
}

int mf_vec_step(struct mf_vec *v, const float *actions, int C, bool autoreset, struct mf_decision *d,
                struct mf_err *err)
{
    size_t room = (size_t)v->N * (size_t)C;
    int rc = check_actions(v, actions, (size_t)C * (size_t)v->A, err);
    if (rc)
        return rc;
    if (room > v->reward_room) {
        v->rewards = mf_xrealloc(v->rewards, room, sizeof(float));
        v->reward_room = room;
    }
    v->actions = actions;
    v->C = C;
    v->autoreset = autoreset;
    mf_pool_run(v->pool, step_one, v, v->N);
    *d = (struct mf_decision){.rewards = v->rewards,
                              .n_exec = v->n_exec,
                              .terminated = v->terminated,
                              .truncated = v->truncated,
                              .final_obs = v->final_obs,
                              .obs = v->obs,
                              .episode_return = v->ret,
                              .episode_length = v->length,
                              .episode_success = v->success,
                              .step_success = v->step_success};
    return check_observations(v, err);
}

int mf_vec_expert(struct mf_vec *v, float *actions, struct mf_err *err)
{
    size_t A = (size_t)v->A;
    if (!v->env->expert)
        return mf_err_set(err, MF_EUSAGE, "environment %s has no scripted expert", v->env->name);
    memset(actions, 0, (size_t)v->N * A * sizeof *actions);
    for (int n = 0; n < v->N; n++) {
        struct slot *s = &v->slot[n];
        struct mf_rng rng = mf_rng_at(v->o.seed, MF_RNG_EXPERT, (uint32_t)(v->o.first_env + n), (uint32_t)v->episode[n],
                                      (uint32_t)v->clock[n]);
        if (s->ended)
            continue;
        mf_env_observe(v->env, s->state, &v->low, v->expert_obs);
        v->env->expert(s->state, s->memory, &rng, v->expert_obs, actions + (size_t)n * A);
    }
    return 0;
}

const int32_t *mf_vec_episode(const struct mf_vec *v)
{
    return v->episode;
}

const struct mf_layout *mf_vec_layout(const struct mf_vec *v)
{
    return &v->o.obs;
}

const int32_t *mf_vec_clock(const struct mf_vec *v)
{
    return v->clock;
}

/* ---- save and load: the environment's name, then per environment a record, its expert's memory, its state ---- */

struct record {
    int32_t episode, clock;
    float ret;
    uint8_t success, ended, pad[2];
};

enum { NAME = 32 };

static size_t slot_size(const struct mf_vec *v)
{
    return sizeof(struct record) + v->env->expert_size + v->env->state_size(v->slot[0].state);
}

size_t mf_vec_state_size(const struct mf_vec *v)
{
    return NAME + (size_t)v->N * slot_size(v);
}

void mf_vec_save(const struct mf_vec *v, void *bytes)
{
    char *at = bytes;
    memset(at, 0, NAME);
    memcpy(at, v->env->name, strnlen(v->env->name, NAME - 1));
    at += NAME;
    for (int n = 0; n < v->N; n++, at += slot_size(v)) {
        const struct slot *s = &v->slot[n];
        struct record r = {v->episode[n], v->clock[n], s->ret, s->success, s->ended, {0}};
        memcpy(at, &r, sizeof r);
        memcpy(at + sizeof r, s->memory, v->env->expert_size);
        v->env->save(s->state, at + sizeof r + v->env->expert_size);
    }
}

int mf_vec_load(struct mf_vec *v, const void *bytes, size_t size, const float **obs, struct mf_err *err)
{
    const char *at = bytes;
    if (size < NAME || strncmp(at, v->env->name, NAME) || size != mf_vec_state_size(v))
        return mf_err_set(err, MF_EFORMAT,
                          "the saved environments (%zu bytes) are not %d of %s (%zu bytes); resume "
                          "with the env.name and training.num_envs of the run",
                          size, v->N, v->env->name, mf_vec_state_size(v));
    at += NAME;
    for (int n = 0; n < v->N; n++, at += slot_size(v)) {
        struct slot *s = &v->slot[n];
        struct record r;
        memcpy(&r, at, sizeof r);
        v->episode[n] = r.episode;
        v->clock[n] = r.clock;
        s->ret = r.ret;
        s->success = r.success;
        s->ended = r.ended;
        memcpy(s->memory, at + sizeof r, v->env->expert_size);
        v->env->load(s->state, at + sizeof r + v->env->expert_size);
        observe(v, n);
    }
    *obs = v->obs;
    return 0;
}
