#include "env/vec.h"

#include <stdlib.h>
#include <string.h>

#include "tap.h"

enum { O = 19, A = 7 };

static const struct mf_env *env;
static void *model;
static struct mf_layout low; /* the default observation */

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

static struct mf_step step(void *state, const float *action, float *obs)
{
    struct mf_step r = env->step(state, action);
    mf_env_observe(env, state, &low, obs);
    return r;
}

static void load(void *state, const void *bytes, float *obs)
{
    env->load(state, bytes);
    mf_env_observe(env, state, &low, obs);
}

/* The expert, shown a cube displaced against its own miscalibration: a well calibrated one. */
static void calibrated(void *state, void *memory, unsigned t, const float *obs, float *action)
{
    static const float error[3] = {0.0185f, 0.012f, 0.012f}, s = -0.0998334f, c = 0.9950042f; /* sin, cos of -.1 */
    float seen[O];
    struct mf_rng rng = mf_rng_at(6, MF_RNG_TEST, 0, 0, t);
    memcpy(seen, obs, sizeof seen);
    for (int i = 0; i < 3; i++)
        seen[i] -= error[i];
    seen[5] = c * obs[5] + s * obs[6]; /* the cube stands upright: only z and w of its quaternion turn */
    seen[6] = c * obs[6] - s * obs[5];
    env->expert(state, memory, &rng, seen, action);
}

static void check_observation(void)
{
    void *state = fresh(60);
    float obs[O], least = 1, most = -1;
    int good = 1, yaw = 1;
    for (unsigned i = 0; i < 200; i++) {
        begin(state, i, obs);
        good &= fabsf(obs[0]) <= 0.08f && fabsf(obs[1]) <= 0.08f && obs[2] == 0.02f;
        good &= fabsf(obs[10]) <= 0.03f && fabsf(obs[11]) <= 0.03f && fabsf(obs[12] - 0.13f) <= 0.02001f;
        good &= obs[17] == 0.04f && obs[18] == -0.04f;
        for (int k = 0; k < 3; k++)
            good &= fabsf(obs[7 + k] - (obs[k] - obs[10 + k])) < 1e-6f;
        float cube = 2 * atan2f(obs[5], obs[6]), hand = 2 * atan2f(obs[15], obs[16]);
        yaw &= obs[3] == 0 && obs[4] == 0 && fabsf(cube) <= 0.5f && fabsf(hand) <= 0.101f;
        least = fminf(least, cube);
        most = fmaxf(most, cube);
    }
    ok(low.dim == O && env->action_dim == A, "19 floats of observation, 7 of action");
    ok(good, "200 resets: cube, hand and fingers lie in their ranges, gripper to cube is the difference");
    ok(yaw && least < -0.4f && most > 0.4f, "the cube's yaw fills +-.5 and its quaternion is xyzw");
    env->release(state);
}

static void check_motion(void)
{
    static const float move[A] = {0.5f, -0.5f, 0.25f, 0, 0, 0.5f, -1};
    void *state = fresh(60);
    float before[O], obs[O], rest[A] = {0};
    begin(state, 1, before);
    step(state, move, obs);
    for (int t = 0; t < 20; t++)
        step(state, rest, obs);
    near(obs[10] - before[10], 0.01, 2e-4, "x .5 moves the hand 1 cm");
    near(obs[11] - before[11], -0.01, 2e-4, "y -.5 moves it -1 cm");
    near(obs[12] - before[12], 0.005, 2e-4, "z .25 moves it 5 mm up: its weight is carried");
    near(2 * (atan2f(obs[15], obs[16]) - atan2f(before[15], before[16])), 0.05, 2e-3, "the sixth turns it about z");
    near(obs[2], 0.02, 1e-4, "the cube rests on the table");
    float shut[A] = {0, 0, 0, 0, 0, 0, 1};
    for (int t = 0; t < 10; t++)
        step(state, shut, obs);
    ok(fabsf(obs[17]) < 1e-3f && fabsf(obs[18]) < 1e-3f, "the gripper closes on nothing");
    env->release(state);
}

static void check_time_limit(void)
{
    void *state = fresh(60);
    float obs[O], zero[A] = {0};
    struct mf_step r = {0};
    int early = 0;
    begin(state, 2, obs);
    for (int t = 0; t < 60; t++) {
        early += r.truncated || r.terminated;
        r = step(state, zero, obs);
    }
    ok(!early && r.truncated && !r.terminated && !r.success && r.reward == 0, "60 idle steps are truncated");
    env->release(state);
}

static void check_hold(void)
{
    void *state = fresh(60), *memory = malloc(env->expert_size);
    float obs[O], action[A];
    int success = 0, exact = 1;
    enum { EPISODES = 30 };
    for (unsigned i = 0; i < EPISODES; i++) {
        struct mf_step r = {0};
        int high = 0;
        begin(state, i, obs);
        memset(memory, 0, env->expert_size);
        for (unsigned t = 0; t < 60 && !r.terminated; t++) {
            calibrated(state, memory, 100 * i + t, obs, action);
            r = step(state, action, obs);
            high = obs[2] > 0.06f ? high + 1 : 0;
            exact &= r.success == (high >= 5) && r.terminated == r.success && r.reward == (float)r.success;
        }
        success += r.success;
    }
    ok(exact, "success, its reward and the end come with the fifth step in a row above 4 cm");
    ok(success >= EPISODES * 9 / 10, "a well calibrated expert lifts %d of %d", success, EPISODES);

    int high = 0, row = 0, longest = 0, ended = 0, open = 0; /* again and again, but let go as soon as it is high */
    begin(state, 0, obs);
    for (unsigned t = 0; t < 150; t++) {
        if (open == 0)
            memset(memory, 0, env->expert_size);
        calibrated(state, memory, t, obs, action);
        open = obs[2] > 0.06f ? 10 : open - 1;
        if (open > 0)
            memset(action, 0, sizeof action), action[6] = -1;
        ended |= step(state, action, obs).success;
        row = obs[2] > 0.06f ? row + 1 : 0;
        high += row > 0;
        longest = row > longest ? row : longest;
    }
    ok(high >= 5 && longest < 5 && !ended, "%d high steps, but no more than %d in a row, are no success", high,
       longest);
    free(memory);
    env->release(state);
}

static void check_random(void)
{
    void *state = fresh(200);
    float obs[O], action[A];
    int sane = 1;
    for (unsigned i = 0; i < 8; i++) {
        struct mf_rng rng = mf_rng_at(9, MF_RNG_TEST, 1, i, 0);
        begin(state, i, obs);
        for (int t = 0; t < 200; t++) {
            mf_rng_normal(&rng, action, A);
            for (int k = 0; k < A; k++)
                action[k] *= 2;
            action[2] -= i % 2 ? 1 : 0; /* half of them press down */
            step(state, action, obs);
            float norm = obs[3] * obs[3] + obs[4] * obs[4] + obs[5] * obs[5] + obs[6] * obs[6];
            sane &= obs[2] > 0.013f && obs[2] < 0.4f && fabsf(obs[0]) < 0.39f && fabsf(obs[1]) < 0.39f;
            sane &= fabsf(norm - 1) < 1e-4f && obs[12] > 0.01f && obs[12] < 0.26f;
        }
    }
    ok(sane, "under random actions the cube neither sinks nor flies, and the hand keeps to its space");
    env->release(state);
}

static void check_resume(void)
{
    enum { BEFORE = 14, AFTER = 100 };
    void *one = fresh(400), *two = fresh(400), *memory = calloc(1, env->expert_size);
    float obs[O], other[O], action[AFTER][A], seen[AFTER][O];
    begin(one, 3, obs);
    for (unsigned t = 0; t < BEFORE; t++) {
        calibrated(one, memory, t, obs, action[0]);
        step(one, action[0], obs);
    }
    size_t size = env->state_size(one);
    char *saved = malloc(size), *end = malloc(size), *again = malloc(size);
    env->save(one, saved);
    for (unsigned t = 0; t < AFTER; t++) {
        calibrated(one, memory, BEFORE + t, t ? seen[t - 1] : obs, action[t]);
        action[t][6] = t % 40 < 30 ? 1 : -1; /* lift, drop, grasp at it again */
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
    ok(top > 0.05f && equal, "100 steps with contact in a fresh simulation have the same bits");
    ok(!memcmp(end, again, size), "to the last bit of the state");
    load(one, saved, other);
    for (int t = 0; t < AFTER; t++)
        step(one, action[t], other);
    env->save(one, again);
    ok(!memcmp(end, again, size), "and so in a used one");

    memset(again, 0xff, size); /* NaN everywhere */
    load(two, again, other);
    struct mf_step r = step(two, action[0], other);
    ok(r.terminated && !r.success && isnan(other[0]), "a simulation that diverged shows NaN");
    begin(two, 3, other);
    r = step(two, action[0], other);
    ok(!r.terminated && isfinite(other[0]), "and a reset mends it");
    free(saved), free(end), free(again), free(memory);
    env->release(one);
    env->release(two);
}

static void check_expert(void)
{
    enum { N = 200 };
    static float actions[N * A];
    struct mf_err err;
    struct mf_decision d;
    struct mf_vec *v;
    int success = 0;
    const float *obs;
    if (mf_vec_new(&v, &(struct mf_vec_opts){.env = env, .N = N, .seed = 1}, &err) || mf_vec_reset(v, NULL, &obs, &err))
        printf("Bail out! %s\n", err.text), exit(1);
    for (int t = 0; t < env->max_steps; t++) {
        mf_vec_expert(v, actions, &err);
        mf_vec_step(v, actions, 1, false, &d, &err);
    }
    for (int n = 0; n < N; n++)
        success += d.episode_success[n];
    ok(success > 0.45 * N && success < 0.68 * N, "the miscalibrated expert lifts %d of %d", success, N);
    mf_vec_free(v);
}

int main(void)
{
    struct mf_err err;
    if (mf_env_find(&env, "lift", &err) || env->open(&model, &err) || mf_env_layout(env, 0, NULL, NULL, &low, &err))
        printf("Bail out! %s\n", err.text), exit(1);
    check_observation();
    check_motion();
    check_time_limit();
    check_hold();
    check_random();
    check_resume();
    check_expert();
    env->close(model);
    return done();
}
