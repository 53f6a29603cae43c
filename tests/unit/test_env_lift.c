#include "hand_task.h"

enum { O = 19 };

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
    env->expert(state, memory, 1, &rng, seen, action);
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
    struct mf_env_step r = {0};
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
        struct mf_env_step r = {0};
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

/* Lift, drop, grasp at it again. */
static void lift_and_drop(void *state, void *memory, unsigned t, const float *obs, float *action)
{
    calibrated(state, memory, t, obs, action);
    if (t >= 14)
        action[6] = (t - 14) % 40 < 30 ? 1 : -1;
}

static void check_expert(void)
{
    enum { N = 200 };
    const int success = expert_successes(N, 1), without = expert_successes(N, 0), twice = expert_successes(N, 2);
    ok(success > 0.45 * N && success < 0.68 * N, "the miscalibrated expert lifts %d of %d", success, N);
    ok(without == N && twice < .1 * N, "without its error %d, with twice the error %d", without, twice);
}

int main(void)
{
    open_task("lift");
    check_observation();
    check_motion();
    check_time_limit();
    check_hold();
    check_random();
    check_resume(lift_and_drop, 14, .05f);
    check_expert();
    env->close(model);
    return done();
}
