/* Gymnasium's numbers for its tasks on models of our own: tests/reference/gym.py. */
#include "env/gym.h"

#include <stdlib.h>
#include <string.h>

#include "env/vec.h"
#include "fixture.h"
#include "tap.h"

enum { BEFORE = 30, AFTER = 30, EPISODES = 2, STEPS = 24, O_MOST = 128, A_MOST = 8 };

static const struct mf_env *env;
static struct mf_layout low;
static void *model, *state;
static char file[64];

static void must(int rc, const struct mf_err *err)
{
    if (rc)
        printf("Bail out! %s\n", err->text), exit(1);
}

static void open_task(const char *name, const char *model_of)
{
    struct mf_err err;
    snprintf(file, sizeof file, "tests/fixtures/gym/%s.xml", model_of);
    must(mf_env_open(&env, &(struct mf_env_opts){.name = name, .model = file}, &err), &err);
    must(env->open(&model, env->file, &err) || mf_env_layout(env, 0, NULL, NULL, &low, &err) ||
             env->init(&state, model, env->max_steps, &err),
         &err);
}

static void close_task(void)
{
    env->release(state);
    env->close(model);
    mf_env_close(env);
}

static void begin(unsigned episode)
{
    struct mf_rng rng = mf_rng_at(3, MF_RNG_TEST, 0, episode, 0);
    env->reset(state, &rng);
}

/* Puts positions and velocities into the saved state, which begins with x and ends with time, qpos, qvel, ctrl and
 * qacc_warmstart (nv). */
static void place(const float *start, int nq, int nv)
{
    const size_t size = env->state_size(state), behind = (size_t)(nv + nv + env->action_dim) * sizeof(double);
    char *bytes = malloc(size);
    begin(0);
    env->save(state, bytes);
    memcpy(bytes, &(double){(double)start[0]}, sizeof(double));
    for (int i = 0; i < nq + nv; i++)
        memcpy(bytes + size - behind + (size_t)(i - nq) * sizeof(double), &(double){(double)start[i]}, sizeof(double));
    env->load(state, bytes);
    free(bytes);
}

static float *numbers(const struct fixture *f, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "%s/%s", env->name, what);
    return fixture_find(f, name, NULL);
}

static void check_numbers(const struct fixture *f, int nq, int nv)
{
    float *start = numbers(f, "start"), *actions = numbers(f, "actions"), *obs = numbers(f, "obs"),
          *rewards = numbers(f, "rewards"), *ends = numbers(f, "ends"), seen[O_MOST];
    double worst_obs = 0, worst_reward = 0;
    int wrong = 0, ended = 0;
    for (int i = 0; i < EPISODES * STEPS; i++) {
        if (i % STEPS == 0)
            place(start + i / STEPS * (nq + nv), nq, nv);
        const struct mf_env_step r = env->step(state, actions + i * env->action_dim);
        mf_env_observe(env, state, &low, seen);
        for (int k = 0; k < low.dim; k++)
            worst_obs = fmax(worst_obs, fabs(seen[k] - obs[i * low.dim + k]));
        worst_reward = fmax(worst_reward, fabs(r.reward - rewards[i]));
        wrong += r.terminated != (ends[i] != 0) || r.success || r.truncated;
        ended += ends[i] != 0;
    }
    ok(worst_obs < 2e-5, "%s: %d observations of %d numbers are Gymnasium's, within %.1g", env->name, EPISODES * STEPS,
       low.dim, worst_obs);
    ok(worst_reward < 1e-5, "so are the rewards, within %.1g", worst_reward);
    ok(!wrong && (ended > 0 || !strcmp(env->name, "half_cheetah")), "so are the ends (%d not healthy)", ended);
    free(start), free(actions), free(obs), free(rewards), free(ends);
}

static void act(int t, float action[A_MOST])
{
    struct mf_rng rng = mf_rng_at(4, MF_RNG_TEST, 0, 0, (uint32_t)t);
    for (int i = 0; i < env->action_dim; i++)
        action[i] = mf_rng_range(&rng, -1, 1);
}

/* Steps after load have the bits of those after save; ant is in contact then, as its forces show. */
static void check_saved(void)
{
    float action[A_MOST], seen[2][AFTER][O_MOST] = {{{0}}}, reward[2][AFTER], here[2][O_MOST] = {{0}};
    const size_t size = env->state_size(state);
    char *bytes = malloc(size);
    begin(1);
    for (int t = 0; t < BEFORE; t++)
        act(t, action), env->step(state, action);
    env->save(state, bytes);
    for (int again = 0; again < 2; again++) {
        if (again)
            begin(2), env->load(state, bytes);
        mf_env_observe(env, state, &low, here[again]);
        for (int t = 0; t < AFTER; t++) {
            act(BEFORE + t, action);
            reward[again][t] = env->step(state, action).reward;
            mf_env_observe(env, state, &low, seen[again][t]);
        }
    }
    ok(!memcmp(here[0], here[1], sizeof *here) && !memcmp(seen[0], seen[1], sizeof *seen) &&
           !memcmp(reward[0], reward[1], sizeof *reward),
       "steps after load have the bits of those after save");
    memset(bytes, 0xff, size); /* NaN everywhere */
    env->load(state, bytes);
    const struct mf_env_step r = env->step(state, action);
    mf_env_observe(env, state, &low, here[0]);
    ok(r.terminated && isnan(here[0][0]) && isnan(here[0][low.dim - 1]), "a diverged simulation shows NaN");
    begin(3);
    ok(isfinite(env->step(state, action).reward), "and a reset mends it");
    free(bytes);
}

/* The start: as the model, with noise of each episode's own. */
static void check_start(int joint, double noise)
{
    float first[O_MOST], other[O_MOST];
    double most = 0;
    begin(5);
    mf_env_observe(env, state, &low, first);
    for (unsigned i = 0; i < 200; i++) {
        begin(6 + i);
        mf_env_observe(env, state, &low, other);
        most = fmax(most, fabs(other[joint] - first[joint]));
    }
    begin(5);
    mf_env_observe(env, state, &low, other);
    ok(!memcmp(first, other, (size_t)low.dim * sizeof *first), "an episode starts from its seed");
    ok(most > noise && most < 2 * noise, "with positions within +-%g", noise);
}

static void check_time(void)
{
    const float idle[A_MOST] = {0};
    struct mf_env_step r = {0};
    int t = 0;
    begin(0);
    for (; t < env->max_steps && !r.truncated && !r.terminated; t++)
        r = env->step(state, idle);
    ok(t == 1000 && r.truncated && !r.terminated, "half_cheetah is truncated after 1000 steps (%d)", t);
}

static void check_refused(const char *name, const char *path, const char *why)
{
    struct mf_err err;
    const struct mf_env *e;
    void *m;
    must(mf_env_open(&e, &(struct mf_env_opts){.name = name, .model = path}, &err), &err);
    ok(e->open(&m, e->file, &err) && strstr(err.text, why), "%s", err.text);
    mf_env_close(e);
}

int main(void)
{
    static const struct {
        const char *name;
        int nq, nv;
        double noise;
    } task[] = {{"hopper", 6, 6, 5e-3}, {"walker2d", 9, 9, 5e-3}, {"half_cheetah", 9, 9, .1}, {"ant", 15, 14, .1}};
    const struct fixture f = fixture_load("tests/fixtures/gym/gym.bin");
    for (size_t i = 0; i < sizeof task / sizeof *task; i++) {
        open_task(task[i].name, task[i].name);
        check_numbers(&f, task[i].nq, task[i].nv);
        check_saved();
        check_start(task[i].nq - 3, task[i].noise);
        if (!strcmp(env->name, "half_cheetah"))
            check_time();
        close_task();
    }
    check_refused("hopper", NULL, "needs env.model=PATH/hopper.xml");
    check_refused("ant", "none.xml", "env.model: cannot open none.xml");
    check_refused("ant", "tests/fixtures/gym/hopper.xml", "has 6 positions, 6 velocities, 3 motors and 5 bodies");
    check_refused("hopper", "tests/fixtures/gym/gym.bin", "MuJoCo cannot load the model");
    free(f.bytes);
    return done();
}
