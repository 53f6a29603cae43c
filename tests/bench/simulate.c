/* simulate.c - how much of MuJoCo's own speed is left when lift is stepped as a vec, on 1 and on 2 threads.
 *
 * Both sides do the same physics, bit by bit: the vec takes the expert's
 * actions decision by decision; the bare loop takes the controls that these
 * became, a whole environment at a time. In turns; the best turn of each.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "env/hand.h"
#include "env/vec.h"

enum { N = 128, DECISIONS = 8, C = 4, A = 7, U = 8, SUBSTEPS = 10, TURNS = 6, THREADS = 2 };

struct script { /* what one environment goes through */
    int steps;
    char *start[DECISIONS * C]; /* the state to begin an episode from before this step, or NULL */
    double control[DECISIONS * C][U];
    float action[DECISIONS][C][A];
    mjData *data;
};

static const struct mf_env *env;
static const struct mf_scene *scene;
static mjModel *model;
static struct script script[N];
static atomic_int next;

static char *physics(const void *state) /* what follows the task's own in the saved bytes */
{
    size_t whole = env->state_size(state), size = mf_mujoco_state_size(model);
    char *bytes = malloc(whole);
    env->save(state, bytes);
    memmove(bytes, bytes + whole - size, size);
    return bytes;
}

static void record(struct script *s, int n)
{
    struct mf_err err;
    void *state, *memory = malloc(env->expert_size);
    float obs[32];
    struct mf_layout low;
    bool ended = true;
    uint32_t episode = 0;
    bench_must(mf_env_layout(env, 0, NULL, NULL, &low, &err), &err);
    bench_must(env->init(&state, scene, env->max_steps, &err), &err);
    bench_must(mf_mujoco_data(&s->data, model, &err), &err);
    struct mf_rng noise = mf_rng_at(2, MF_RNG_TEST, (uint32_t)n, 0, 0);
    for (int d = 0; d < DECISIONS; d++) {
        if (ended) {
            struct mf_rng rng = mf_rng_at(1, MF_RNG_RESET, (uint32_t)n, episode++, 0);
            env->reset(state, &rng);
            memset(memory, 0, env->expert_size);
            s->start[s->steps] = physics(state);
            ended = false;
        }
        for (int c = 0; c < C && !ended; c++) {
            mf_env_observe(env, state, &low, obs);
            env->expert(state, memory, 1, &noise, obs, s->action[d][c]);
            struct mf_env_step r = env->step(state, s->action[d][c]);
            ended = r.terminated || r.truncated;
            char *after = physics(state);
            mf_mujoco_restore(model, s->data, after);
            memcpy(s->control[s->steps++], s->data->ctrl, sizeof s->control[0]);
            free(after);
        }
    }
    env->release(state);
    free(memory);
}

static void *bare(void *arg)
{
    for (int n; (n = atomic_fetch_add(&next, 1)) < N;) {
        struct script *s = &script[n];
        for (int t = 0; t < s->steps; t++) {
            if (s->start[t])
                mf_mujoco_restore(model, s->data, s->start[t]);
            memcpy(s->data->ctrl, s->control[t], sizeof s->control[t]);
            for (int i = 0; i < SUBSTEPS; i++)
                mj_step(model, s->data);
        }
    }
    return arg;
}

static double bare_seconds(int threads)
{
    pthread_t thread[THREADS];
    double begin = bench_now();
    atomic_store(&next, 0);
    for (int i = 1; i < threads; i++)
        pthread_create(&thread[i], NULL, bare, NULL);
    bare(NULL);
    for (int i = 1; i < threads; i++)
        pthread_join(thread[i], NULL);
    return bench_now() - begin;
}

static double vec_seconds(struct mf_vec *v)
{
    static float action[N * C * A];
    struct mf_err err;
    struct mf_decision d = {0};
    const float *obs;
    bench_must(mf_vec_reset(v, NULL, &obs, &err), &err);
    double begin = bench_now();
    for (int k = 0; k < DECISIONS; k++) {
        for (int n = 0; n < N; n++)
            memcpy(action + n * C * A, script[n].action[k], sizeof script[n].action[k]);
        bench_must(mf_vec_step(v, action, C, true, &d, &err), &err);
    }
    return bench_now() - begin;
}

int main(void)
{
    struct mf_err err;
    void *m = NULL;
    int steps = 0;
    bench_must(mf_env_find(&env, "lift", &err) || env->open(&m, NULL, &err) ? err.code : 0, &err);
    scene = m;
    model = scene->m;
    for (int n = 0; n < N; n++) {
        record(&script[n], n);
        steps += script[n].steps;
    }
    for (int threads = 1; threads <= THREADS; threads++) {
        struct mf_vec *v;
        double best_vec = 1e9, best_bare = 1e9;
        struct mf_vec_opts o = {.env = env, .N = N, .threads = threads, .seed = 1, .reset_purpose = MF_RNG_RESET};
        bench_must(mf_vec_new(&v, &o, &err), &err);
        for (int i = 0; i < TURNS; i++) {
            double a = vec_seconds(v), b = bare_seconds(threads);
            best_vec = a < best_vec ? a : best_vec;
            best_bare = b < best_bare ? b : best_bare;
        }
        printf("simulate threads=%d vec_steps_per_s=%.0f bare_steps_per_s=%.0f ratio=%.3f\n", threads, steps / best_vec,
               steps / best_bare, best_bare / best_vec);
        mf_vec_free(v);
    }
    return 0;
}
