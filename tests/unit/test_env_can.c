#include <stdlib.h>
#include <string.h>

#include "env/hand.h"
#include "env/vec.h"
#include "tap.h"

enum { O = 23, A = MF_HAND_ACTION, CAN = MF_HAND_QPOS };

static const struct mf_env *env;
static void *model;
static struct mf_layout low;

static void *begin(unsigned episode, float *obs)
{
    struct mf_err err;
    struct mf_rng rng = mf_rng_at(5, MF_RNG_TEST, 0, episode, 0);
    void *state;
    if (env->init(&state, model, env->max_steps, &err))
        printf("Bail out! %s\n", err.text), exit(1);
    env->reset(state, &rng);
    mf_env_observe(env, state, &low, obs);
    return state;
}

static struct mf_step step(void *state, const float *action, float *obs)
{
    struct mf_step r = env->step(state, action);
    mf_env_observe(env, state, &low, obs);
    return r;
}

/* The expert, shown a can displaced against its miscalibration: its random part is left. */
static void calibrated(void *state, void *memory, unsigned t, const float *obs, float *action)
{
    static const float error[3] = {0.012f, 0.008f, 0.010f};
    float seen[O];
    struct mf_rng rng = mf_rng_at(6, MF_RNG_TEST, 0, 0, t);
    memcpy(seen, obs, sizeof seen);
    for (int i = 0; i < 3; i++)
        seen[i] -= error[i];
    env->expert(state, memory, &rng, seen, action);
}

static void check_observation(void)
{
    float obs[O];
    bool good = true, back = true;
    for (unsigned i = 0; i < 100; i++) {
        void *state = begin(i, obs);
        good &= fabsf(obs[0]) <= 0.045f && fabsf(obs[1] + 0.13f) <= 0.0451f && obs[2] == 0.03f;
        /* The can in the hand's frame, taken back to the world. */
        double hand[4] = {obs[20], obs[17], obs[18], obs[19]}, at[3] = {obs[7], obs[8], obs[9]}, way[3],
               turn[4] = {obs[13], obs[10], obs[11], obs[12]}, can[4];
        mju_rotVecQuat(way, at, hand);
        mju_mulQuat(can, hand, turn);
        for (int k = 0; k < 3; k++)
            back &= fabs(way[k] + obs[14 + k] - obs[k]) < 1e-6 && fabs(can[1 + k] - obs[3 + k]) < 1e-6;
        env->release(state);
    }
    ok(low.dim == O && !strcmp(low.key[0].name, "object") && low.key[0].dim[0] == 14, "Can's keys: object is 14 of 23");
    ok(good, "100 resets: the can stands in its bin");
    ok(back, "its pose in the hand's frame is the one in the world");
}

static void check_rest(void)
{
    float obs[O], first[O], idle[A] = {0};
    void *state = begin(1, first);
    struct mf_step r = {0};
    int early = 0;
    for (int t = 0; t < env->max_steps; t++) {
        early += r.truncated || r.terminated;
        r = step(state, idle, obs);
    }
    ok(!early && r.truncated && !r.terminated && r.reward == 0, "idle steps are truncated in the end");
    ok(hypotf(obs[0] - first[0], obs[1] - first[1]) < 1e-3f && fabsf(obs[2] - .03f) < 1e-3f && fabsf(obs[3]) < .01f &&
           fabsf(obs[4]) < .01f,
       "the can stands still");
    env->release(state);
}

/* Put by us, not by the hand: what counts as placed. */
static bool succeeds(double x, double y, double z, double hand_x, double hand_y, double hand_z)
{
    float obs[O], idle[A] = {0};
    void *state = begin(2, obs);
    struct mf_step r = {0};
    double *q = ((struct mf_hand *)state)->d->qpos, *set = ((struct mf_hand *)state)->set;
    q[CAN] = x, q[CAN + 1] = y, q[CAN + 2] = z;
    set[0] = q[0] = hand_x, set[1] = q[1] = hand_y, set[2] = q[2] = hand_z;
    for (int t = 0; t < 10 && !r.terminated; t++) {
        r = step(state, idle, obs);
        if (t < 2 && r.terminated)
            ok(0, "before the third step");
    }
    env->release(state);
    return r.terminated && r.success && r.reward == 1;
}

static void check_success(void)
{
    ok(succeeds(.02, .14, .03, 0, 0, .15), "in the empty bin is a success, in the third step");
    ok(!succeeds(.1, .13, .03, 0, 0, .15), "beside it is none");
    ok(!succeeds(0, -.13, .03, 0, 0, .15), "nor in its own bin");
    ok(!succeeds(0, .13, .03, 0, .13, .03), "nor between the fingers");
}

static void check_expert(void)
{
    enum { EPISODES = 60, N = 200 };
    static float actions[N * A];
    float obs[O], action[A];
    int success = 0;
    void *memory = malloc(env->expert_size);
    for (unsigned i = 0; i < EPISODES; i++) {
        void *state = begin(i, obs);
        struct mf_step r = {0};
        memset(memory, 0, env->expert_size);
        for (unsigned t = 0; !r.terminated && !r.truncated; t++) {
            calibrated(state, memory, 1000 * i + t, obs, action);
            r = step(state, action, obs);
        }
        success += r.success;
        env->release(state);
    }
    free(memory);
    ok(success > .8 * EPISODES, "an expert that sees the can well places %d of %d", success, EPISODES);

    struct mf_err err;
    struct mf_decision d;
    struct mf_vec *v;
    const float *first;
    if (mf_vec_new(&v, &(struct mf_vec_opts){.env = env, .N = N, .seed = 1}, &err) ||
        mf_vec_reset(v, NULL, &first, &err))
        printf("Bail out! %s\n", err.text), exit(1);
    for (int t = 0; t < env->max_steps; t++) {
        mf_vec_expert(v, actions, &err);
        mf_vec_step(v, actions, 1, false, &d, &err);
    }
    success = 0;
    for (int n = 0; n < N; n++)
        success += d.episode_success[n];
    ok(success > .33 * N && success < .58 * N, "the miscalibrated expert places %d of %d", success, N);
    mf_vec_free(v);
}

static void check_resume(void)
{
    enum { BEFORE = 25, AFTER = 60 };
    float obs[O], other[O], action[AFTER][A], seen[AFTER][O];
    void *one = begin(3, obs), *two = begin(4, other), *memory = calloc(1, env->expert_size);
    for (unsigned t = 0; t < BEFORE; t++) {
        calibrated(one, memory, t, obs, action[0]);
        step(one, action[0], obs);
    }
    size_t size = env->state_size(one);
    char *saved = malloc(size), *end = malloc(size), *again = malloc(size);
    env->save(one, saved);
    for (unsigned t = 0; t < AFTER; t++) {
        calibrated(one, memory, BEFORE + t, t ? seen[t - 1] : obs, action[t]);
        step(one, action[t], seen[t]);
    }
    env->save(one, end);
    env->load(two, saved);
    bool equal = true;
    float top = 0;
    for (int t = 0; t < AFTER; t++) {
        step(two, action[t], other);
        equal &= !memcmp(other, seen[t], sizeof other);
        top = fmaxf(top, other[2]);
    }
    env->save(two, again);
    ok(top > .08f && equal && !memcmp(end, again, size), "steps with the can in the hand are the same bits after load");
    memset(again, 0xff, size); /* NaN everywhere */
    env->load(two, again);
    ok(step(two, action[0], other).terminated && isnan(other[0]) && isnan(other[O - 1]), "what diverged shows NaN");
    free(saved), free(end), free(again), free(memory);
    env->release(one), env->release(two);
}

/* Press, push and turn. */
static void check_random(void)
{
    float obs[O], action[A];
    bool sane = true;
    for (unsigned i = 0; i < 6; i++) {
        struct mf_rng rng = mf_rng_at(9, MF_RNG_TEST, 1, i, 0);
        void *state = begin(i, obs);
        for (int t = 0; t < 200; t++) {
            mf_rng_normal(&rng, action, A);
            for (int k = 0; k < A; k++)
                action[k] *= 2;
            action[2] -= 1;
            action[1] -= i % 2 ? .5f : 0;
            step(state, action, obs);
            sane &= obs[2] > .012f && obs[2] < .4f && fabsf(obs[0]) < .39f && fabsf(obs[1]) < .39f;
        }
        env->release(state);
    }
    ok(sane, "under random actions the can neither sinks nor flies");
}

int main(void)
{
    struct mf_err err;
    if (mf_env_find(&env, "can", &err) || env->open(&model, &err) || mf_env_layout(env, 0, NULL, NULL, &low, &err))
        printf("Bail out! %s\n", err.text), exit(1);
    check_observation();
    check_rest();
    check_success();
    check_resume();
    check_expert();
    check_random();
    env->close(model);
    return done();
}
