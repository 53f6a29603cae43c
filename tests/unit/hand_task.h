/* hand_task.h - runs a task of one hand (env/hand.h) in its tests. */
#ifndef MF_HAND_TASK_H
#define MF_HAND_TASK_H

#include <stdlib.h>
#include <string.h>

#include "env/hand.h"
#include "env/vec.h"
#include "tap.h"

enum { A = MF_HAND_ACTION, O_MOST = 32 };

static const struct mf_env *env;
static void *model;
static struct mf_layout low; /* the default observation */

static void open_task(const char *name)
{
    struct mf_err err;
    if (mf_env_find(&env, name, &err) || env->open(&model, NULL, &err) || mf_env_layout(env, 0, NULL, NULL, &low, &err))
        printf("Bail out! %s\n", err.text), exit(1);
}

static void *fresh(int max_steps)
{
    struct mf_err err;
    void *state;
    if (env->init(&state, model, max_steps, &err))
        printf("Bail out! %s\n", err.text), exit(1);
    return state;
}

static void begin(void *state, unsigned episode, float *obs)
{
    struct mf_rng rng = mf_rng_at(5, MF_RNG_TEST, 0, episode, 0);
    env->reset(state, &rng);
    mf_env_observe(env, state, &low, obs);
}

static struct mf_env_step step(void *state, const float *action, float *obs)
{
    struct mf_env_step r = env->step(state, action);
    mf_env_observe(env, state, &low, obs);
    return r;
}

static void load(void *state, const void *bytes, float *obs)
{
    env->load(state, bytes);
    mf_env_observe(env, state, &low, obs);
}

/* The number of successes of the environment's scripted expert in n trials, with so many times its error. */
static int expert_successes(int n, float error)
{
    float *actions = calloc((size_t)n, A * sizeof *actions);
    struct mf_err err;
    struct mf_decision d;
    struct mf_vec *v;
    const float *obs;
    int success = 0;
    if (mf_vec_new(&v, &(struct mf_vec_opts){.env = env, .N = n, .expert_error = error, .seed = 1}, &err) ||
        mf_vec_reset(v, NULL, &obs, &err))
        printf("Bail out! %s\n", err.text), exit(1);
    for (int t = 0; t < env->max_steps; t++) {
        mf_vec_expert(v, actions, &err);
        mf_vec_step(v, actions, 1, false, &d, &err);
    }
    for (int i = 0; i < n; i++)
        success += d.episode_success[i];
    mf_vec_free(v);
    free(actions);
    return success;
}

/* A state saved after `before` steps of act continues with the same bits for 100 steps, in another simulation and in
 * this one. The object gets higher than `height`, so the steps have contact. */
static void check_resume(void (*act)(void *state, void *memory, unsigned t, const float *obs, float *action),
                         unsigned before, float height)
{
    enum { AFTER = 100 };
    void *one = fresh(400), *two = fresh(400), *memory = calloc(1, env->expert_size);
    float obs[O_MOST] = {0}, other[O_MOST] = {0}, action[AFTER][A], seen[AFTER][O_MOST] = {{0}};
    begin(one, 3, obs);
    for (unsigned t = 0; t < before; t++) {
        act(one, memory, t, obs, action[0]);
        step(one, action[0], obs);
    }
    size_t size = env->state_size(one);
    char *saved = malloc(size), *end = malloc(size), *again = malloc(size);
    env->save(one, saved);
    for (unsigned t = 0; t < AFTER; t++) {
        act(one, memory, before + t, t ? seen[t - 1] : obs, action[t]);
        step(one, action[t], seen[t]);
    }
    env->save(one, end);
    load(two, saved, other);
    ok(!memcmp(obs, other, sizeof obs), "the observation after load is the one at save");
    int equal = 1;
    float top = 0;
    for (int t = 0; t < AFTER; t++) {
        step(two, action[t], other);
        equal &= !memcmp(other, seen[t], sizeof other);
        top = fmaxf(top, other[2]);
    }
    env->save(two, again);
    ok(top > height && equal, "100 steps with contact in a fresh simulation have the same bits");
    ok(!memcmp(end, again, size), "to the last bit of the state");
    load(one, saved, other);
    for (int t = 0; t < AFTER; t++)
        step(one, action[t], other);
    env->save(one, again);
    ok(!memcmp(end, again, size), "and so in a used one");

    memset(again, 0xff, size); /* NaN everywhere */
    load(two, again, other);
    struct mf_env_step r = step(two, action[0], other);
    ok(r.terminated && !r.success && isnan(other[0]) && isnan(other[low.dim - 1]), "a diverged simulation shows NaN");
    begin(two, 3, other);
    r = step(two, action[0], other);
    ok(!r.terminated && isfinite(other[0]), "and a reset mends it");
    free(saved), free(end), free(again), free(memory);
    env->release(one);
    env->release(two);
}

#endif
