#include "env/vec.h"

#include <stdlib.h>
#include <string.h>

#include "tap.h"

enum { N = 200 };

static const struct mf_env *env;

/* Mean success and return of one episode in N environments, acted by `act`. */
static void play(void (*act)(struct mf_vec *v, const float *obs, float *actions), double *success, double *ret)
{
    struct mf_err err;
    struct mf_decision d;
    struct mf_vec *v;
    static float actions[N];
    *success = *ret = 0;
    if (mf_vec_new(&v, &(struct mf_vec_opts){.env = env, .N = N, .threads = 1, .expert_error = 1, .seed = 1}, &err))
        printf("Bail out! %s\n", err.text), exit(1);
    const float *obs;
    mf_vec_reset(v, NULL, &obs, &err);
    for (int t = 0; t < env->max_steps; t++) {
        act(v, obs, actions);
        mf_vec_step(v, actions, 1, false, &d, &err);
        obs = d.obs;
    }
    for (int n = 0; n < N; n++) {
        *success += d.episode_success[n] / (double)N;
        *ret += d.episode_return[n] / (double)N;
    }
    mf_vec_free(v);
}

static void by_expert(struct mf_vec *v, const float *obs, float *actions)
{
    struct mf_err err;
    (void)obs;
    mf_vec_expert(v, actions, &err);
}

static void by_law(struct mf_vec *v, const float *obs, float *actions) /* the expert's, without its error */
{
    (void)v;
    for (int n = 0; n < N; n++)
        actions[n] = 3 * (obs[3 * n + 2] - obs[3 * n]) - 0.6f * obs[3 * n + 1];
}

static void by_chance(struct mf_vec *v, const float *obs, float *actions)
{
    (void)obs;
    struct mf_rng rng = mf_rng_at(2, MF_RNG_TEST, 0, 0, (uint32_t)mf_vec_clock(v)[0]);
    mf_rng_normal(&rng, actions, N);
}

int main(void)
{
    struct mf_err err;
    double success, ret;
    if (mf_env_find(&env, "point", &err))
        return 1;
    struct mf_layout l;
    ok(mf_env_layout(env, 0, NULL, NULL, &l, &err) == 0 && l.dim == 3, "position, velocity and goal are 3 floats");
    play(by_law, &success, &ret);
    ok(success > 0.999, "a well calibrated law always arrives (%.3f)", success);
    play(by_expert, &success, &ret);
    ok(success > 0.5 && success < 0.9, "the expert's offset costs it some arrivals (%.3f)", success);
    play(by_chance, &success, &ret);
    ok(success < 0.1, "chance hardly ever arrives (%.3f)", success);

    void *state;
    float obs[3], next[3], clipped[3], far = 7, one = 1;
    env->init(&state, NULL, 40, &err);
    struct mf_rng rng = mf_rng_at(0, MF_RNG_TEST, 0, 0, 0), again = rng;
    env->reset(state, &rng);
    env->step(state, &far);
    mf_env_observe(env, state, &l, next);
    env->reset(state, &again);
    mf_env_observe(env, state, &l, obs);
    env->step(state, &one);
    mf_env_observe(env, state, &l, clipped);
    ok(!memcmp(next, clipped, sizeof next), "actions are clipped to 1");
    near(next[1], 0.05 * 12, 1e-6, "force 1 for one step gives .6 m/s");
    near(next[0] - obs[0], 0.05 * 0.6, 1e-5, "and that moves it 3 cm");
    env->release(state);
    return done();
}
