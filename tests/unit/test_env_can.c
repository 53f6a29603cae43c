#include "hand_task.h"

enum { O = 23, CAN = MF_HAND_QPOS };

static void *begun(unsigned episode, float *obs)
{
    void *state = fresh(env->max_steps);
    begin(state, episode, obs);
    return state;
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
    env->expert(state, memory, 1, &rng, seen, action);
}

static void check_observation(void)
{
    float obs[O];
    bool good = true, back = true;
    for (unsigned i = 0; i < 100; i++) {
        void *state = begun(i, obs);
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
    void *state = begun(1, first);
    struct mf_env_step r = {0};
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

/* Placed by the test, not by the hand: the positions that count as placed. */
static bool succeeds(double x, double y, double z, double hand_x, double hand_y, double hand_z)
{
    float obs[O], idle[A] = {0};
    void *state = begun(2, obs);
    struct mf_env_step r = {0};
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
    float obs[O], action[A];
    int success = 0;
    void *memory = malloc(env->expert_size);
    for (unsigned i = 0; i < EPISODES; i++) {
        void *state = begun(i, obs);
        struct mf_env_step r = {0};
        memset(memory, 0, env->expert_size);
        for (unsigned t = 0; !r.terminated && !r.truncated; t++) {
            calibrated(state, memory, 1000 * i + t, obs, action);
            r = step(state, action, obs);
        }
        success += r.success;
        env->release(state);
    }
    free(memory);
    ok(success > .8 * EPISODES, "an expert with exact observations of the can places %d of %d", success, EPISODES);

    success = expert_successes(N, 1);
    ok(success > .33 * N && success < .58 * N, "the miscalibrated expert places %d of %d", success, N);
}

/* Press, push and turn. */
static void check_random(void)
{
    float obs[O], action[A];
    bool sane = true;
    for (unsigned i = 0; i < 6; i++) {
        struct mf_rng rng = mf_rng_at(9, MF_RNG_TEST, 1, i, 0);
        void *state = begun(i, obs);
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
    open_task("can");
    check_observation();
    check_rest();
    check_success();
    check_resume(calibrated, 25, .08f);
    check_expert();
    check_random();
    env->close(model);
    return done();
}
