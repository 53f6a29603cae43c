/* envs.c - what stepping costs: our vec on Gymnasium's HalfCheetah, and the border to another process.
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
#include "env/vec.h"

enum { N = 64, THREADS = 2, TURNS = 5 };

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

int main(int argc, char **argv)
{
    struct mf_err err;
    double wall, cpu, own, own_cpu;
    if (argc == 3 && !strcmp(argv[1], "cheetah")) {
        const struct mf_env *cheetah;
        must(mf_env_open(&cheetah, &(struct mf_env_opts){.name = "half_cheetah", .model = argv[2]}, &err), &err);
        time_steps(cheetah, THREADS, 200, &wall, &cpu);
        mf_env_close(cheetah);
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
