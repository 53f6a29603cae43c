/* envs.c - what stepping costs: our vec on Gymnasium's model of HalfCheetah, and the border to another process.
 *
 *   envs cheetah half_cheetah.xml    64 environments on 2 threads, random actions: steps a second
 *   envs border 'mf-env point threads=1'    microseconds of a batched step beyond the same step in this process
 *
 * The best of several turns; `cpu` counts the processor's time of this process, whatever runs beside it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "env/mujoco.h"
#include "env/vec.h"

enum { N = 64, A = 6, OBS = 17, SKIP = 5, THREADS = 2, TURNS = 5 };

static char *mjcf;

struct cheetah {
    const mjModel *m;
    mjData *d;
    int clock, max_steps;
};

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(int rc, const struct mf_err *err)
{
    if (rc)
        fprintf(stderr, "envs: %s\n", err->text), exit(1);
}

/* ---- HalfCheetah-v5: reward, observation, frames a step and noise of the start are Gymnasium's ---- */

static int open_model(void **model, struct mf_err *err)
{
    return mf_mujoco_load((mjModel **)model, (struct mf_mjcf[]){{"half_cheetah.xml", mjcf}, {0}}, err);
}

static void close_model(void *model)
{
    mj_deleteModel(model);
}

static int init(void **state, const void *model, int max_steps, struct mf_err *err)
{
    struct cheetah *c = *state = mf_xcalloc(1, sizeof *c);
    c->m = model;
    c->max_steps = max_steps;
    return mf_mujoco_data(&c->d, model, err);
}

static void release(void *state)
{
    mj_deleteData(((struct cheetah *)state)->d);
    free(state);
}

static void reset(void *state, struct mf_rng *rng)
{
    struct cheetah *c = state;
    float noise[9];
    mj_resetData(c->m, c->d);
    mf_rng_normal(rng, noise, 9);
    for (int i = 0; i < 9; i++) {
        c->d->qpos[i] += (double)mf_rng_range(rng, -.1f, .1f);
        c->d->qvel[i] = .1 * (double)noise[i];
    }
    mj_forward(c->m, c->d);
    c->clock = 0;
}

static struct mf_env_step step(void *state, const float *action)
{
    struct cheetah *c = state;
    double before = c->d->qpos[0], effort = 0;
    for (int i = 0; i < A; i++) {
        c->d->ctrl[i] = (double)action[i];
        effort += (double)action[i] * (double)action[i];
    }
    bool sane = mf_mujoco_step(c->m, c->d, SKIP);
    double dt = SKIP * c->m->opt.timestep;
    return (struct mf_env_step){.reward = (float)((c->d->qpos[0] - before) / dt - .1 * effort),
                                .terminated = !sane,
                                .truncated = ++c->clock >= c->max_steps};
}

static void observe(void *state, int key, const struct mf_obs *as, float *to)
{
    const struct cheetah *c = state;
    (void)key, (void)as;
    for (int i = 0; i < OBS; i++)
        to[i] = (float)(i < 8 ? c->d->qpos[i + 1] : c->d->qvel[i - 8]);
}

static const struct mf_env cheetah = {.name = "cheetah",
                                      .obs = {{"state", {OBS}, false}},
                                      .action_dim = A,
                                      .max_steps = 1000,
                                      .open = open_model,
                                      .close = close_model,
                                      .init = init,
                                      .release = release,
                                      .reset = reset,
                                      .step = step,
                                      .observe = observe};

/* ---- timing ---- */

/* Seconds of the wall and of the processor for a batched step of one action, at best. */
static void time_steps(const struct mf_env *env, int threads, int steps, double *wall, double *cpu)
{
    struct mf_err err;
    struct mf_vec *v;
    struct mf_decision d;
    const float *obs;
    size_t n = (size_t)N * (size_t)env->action_dim;
    float *actions = mf_xcalloc(n, sizeof *actions);
    struct mf_vec_opts o = {.env = env, .N = N, .threads = threads, .seed = 1, .reset_purpose = MF_RNG_RESET};
    struct mf_rng rng = mf_rng_at(1, MF_RNG_TEST, 0, 0, 0);
    must(mf_vec_new(&v, &o, &err), &err);
    must(mf_vec_reset(v, NULL, &obs, &err), &err);
    *wall = *cpu = 1e9;
    for (int turn = 0; turn < TURNS; turn++) {
        double w = seconds(CLOCK_MONOTONIC), c = seconds(CLOCK_PROCESS_CPUTIME_ID);
        for (int t = 0; t < steps; t++) {
            for (size_t i = 0; i < n; i++)
                actions[i] = mf_rng_range(&rng, -1, 1);
            must(mf_vec_step(v, actions, 1, true, &d, &err), &err);
        }
        w = (seconds(CLOCK_MONOTONIC) - w) / steps;
        c = (seconds(CLOCK_PROCESS_CPUTIME_ID) - c) / steps;
        *wall = w < *wall ? w : *wall;
        *cpu = c < *cpu ? c : *cpu;
    }
    mf_vec_free(v);
    free(actions);
}

static void read_model(const char *path)
{
    FILE *f = fopen(path, "r");
    size_t room = 1 << 20;
    mjcf = mf_xcalloc(1, room);
    if (!f || fread(mjcf, 1, room - 1, f) == 0)
        fprintf(stderr, "envs: cannot read %s\n", path), exit(1);
    fclose(f);
}

int main(int argc, char **argv)
{
    struct mf_err err;
    double wall, cpu, own, own_cpu;
    if (argc == 3 && !strcmp(argv[1], "cheetah")) {
        read_model(argv[2]);
        time_steps(&cheetah, THREADS, 200, &wall, &cpu);
        printf("ours steps_per_s=%.0f steps_per_cpu_s=%.0f\n", N / wall, N / cpu);
        return 0;
    }
    if (argc != 3 || strcmp(argv[1], "border"))
        return 2;
    const struct mf_env *point, *served;
    struct mf_env_opts o = {.name = "exec", .command = argv[2], .workers = 1, .timeout = 60};
    must(mf_env_find(&point, "point", &err), &err);
    must(mf_env_open(&served, &o, &err), &err);
    time_steps(point, 1, 5000, &own, &own_cpu);
    time_steps(served, 1, 5000, &wall, &cpu);
    mf_env_close(served);
    printf("border us=%.1f own_us=%.1f cpu_us=%.1f\n", 1e6 * (wall - own), 1e6 * own, 1e6 * cpu);
    return 0;
}
