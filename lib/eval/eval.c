#include "eval/eval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/stop.h"
#include "env/window.h"

struct group { /* N trials in parallel, from trial `first` on */
    const struct mf_eval_opts *o;
    const struct mf_policy_spec *spec;
    struct mf_sampler *sampler;
    struct mf_vec *vec;
    int first, N, n_live;
    int *live;                    /* (n_live) the running ones */
    uint32_t *began;              /* (N) first decision of the trial: 0, or later if its server died */
    float *history;               /* (N, To*O) */
    float *obs, *noise, *sampled; /* (n_live, ..): inputs and output of the sampler */
    float *chains;                /* (n_live, K+1, D) */
    double *bend;                 /* (N) sum over the trial's decisions */
    int32_t *decisions;           /* (N) of the trial */
    float *actions;               /* (N, C, A) */
};

static void place(struct group *g, struct mf_arena *a)
{
    const struct mf_policy_spec *s = g->spec;
    size_t N = (size_t)g->o->num_envs, O = (size_t)(s->n_obs_steps * s->obs.dim),
           D = (size_t)(s->horizon * mf_action_width(s)), CA = (size_t)(s->n_action_steps * s->action_dim);
    g->live = mf_arena_take(a, N, sizeof *g->live);
    g->began = mf_arena_take(a, N, sizeof *g->began);
    g->history = mf_arena_take(a, N * O, sizeof(float));
    g->obs = mf_arena_take(a, N * O, sizeof(float));
    g->noise = mf_arena_take(a, N * D, sizeof(float));
    g->sampled = mf_arena_take(a, N * CA, sizeof(float));
    g->actions = mf_arena_take(a, N * CA, sizeof(float));
    g->chains = mf_arena_take(a, N * (size_t)(s->K + 1) * D, sizeof(float));
    g->bend = mf_arena_take(a, N, sizeof *g->bend);
    g->decisions = mf_arena_take(a, N, sizeof *g->decisions);
}

double mf_straightness(const float *chain, int K, int D)
{
    double sum = 0;
    for (int j = 0; j < K * D; j++) {
        const double v = K * ((double)chain[j + D] - (double)chain[j]),
                     line = (double)chain[K * D + j % D] - (double)chain[j % D];
        sum += (v - line) * (v - line);
    }
    return sum / K / D;
}

/* Actions of the running trials. Those of finished trials stay as they were and are not executed. */
static int act(struct group *g, uint32_t decision, struct mf_err *err)
{
    const struct mf_policy_spec *s = g->spec;
    size_t O = (size_t)(s->n_obs_steps * s->obs.dim), D = (size_t)(s->horizon * mf_action_width(s)),
           CA = (size_t)(s->n_action_steps * s->action_dim);
    for (int i = 0; i < g->n_live; i++) {
        uint32_t trial = (uint32_t)(g->first + g->live[i]);
        struct mf_rng rng = mf_rng_at(g->o->seed, MF_RNG_EVAL_CHAIN, trial, 0, decision - g->began[g->live[i]]);
        mf_rng_normal(&rng, g->noise + (size_t)i * D, D);
        memcpy(g->obs + (size_t)i * O, g->history + (size_t)g->live[i] * O, O * sizeof(float));
    }
    struct mf_sample x = {.obs = g->obs, .noise = g->noise, .chains = g->chains, .actions = g->sampled};
    int rc = mf_sampler_run(g->sampler, g->n_live, &x, err);
    for (int i = 0; i < g->n_live && rc == 0; i++) {
        const int n = g->live[i];
        memcpy(g->actions + (size_t)n * CA, g->sampled + (size_t)i * CA, CA * sizeof(float));
        g->bend[n] += mf_straightness(g->chains + (size_t)i * (size_t)(s->K + 1) * D, s->K, (int)D);
        g->decisions[n]++;
    }
    return rc;
}

static void take_results(struct group *g, const struct mf_decision *d, struct mf_trial *trial)
{
    const int32_t *task = mf_vec_task(g->vec);
    int n_live = 0;
    for (int i = 0; i < g->n_live; i++) {
        int n = g->live[i];
        if (d->terminated[n] || d->truncated[n])
            trial[g->first + n] = (struct mf_trial){.ret = d->episode_return[n],
                                                    .straightness = (float)(g->bend[n] / g->decisions[n]),
                                                    .length = d->episode_length[n],
                                                    .success_once = d->episode_success[n],
                                                    .success_at_end = d->step_success[n],
                                                    .task = task ? task[n] : 0};
        else
            g->live[n_live++] = n;
    }
    g->n_live = n_live;
}

static int play(struct group *g, struct mf_trial *trial, struct mf_err *err)
{
    const size_t O = (size_t)g->spec->obs.dim, To = (size_t)g->spec->n_obs_steps;
    struct mf_decision d;
    const float *obs;
    int rc = mf_vec_reset(g->vec, NULL, &obs, err);
    if (rc)
        return rc;
    for (int n = 0; n < g->N; n++) {
        g->live[n] = n;
        g->began[n] = 0;
        g->bend[n] = g->decisions[n] = 0;
    }
    g->n_live = g->N;
    mf_windows_push(g->history, g->N, To, O, NULL, obs);
    for (uint32_t decision = 0; g->n_live; decision++) {
        if ((rc = act(g, decision, err)) ||
            (rc = mf_vec_step(g->vec, g->actions, g->spec->n_action_steps, false, &d, err)))
            return rc;
        take_results(g, &d, trial);
        mf_windows_push(g->history, g->N, To, O, &d, d.obs);
        for (int n = 0; n < g->N; n++)
            if (d.lost[n]) {
                g->began[n] = decision + 1;
                g->bend[n] = g->decisions[n] = 0;
            }
        if (mf_stop_signal())
            return mf_err_set(err, MF_STOPPED, "asked to end by signal %d", mf_stop_signal());
    }
    return 0;
}

int mf_eval(const struct mf_eval_opts *o, const struct mf_policy *p, struct mf_sampler *s, struct mf_trial *trial,
            struct mf_err *err)
{
    struct mf_arena arena = {0};
    struct group g = {.o = o, .spec = &p->spec, .sampler = s};
    place(&g, &arena);
    int rc = mf_arena_alloc(&arena, "the trials' observations and actions", err);
    if (rc)
        return rc;
    place(&g, &arena);
    for (g.first = 0; rc == 0 && g.first < o->trials; g.first += g.N) {
        g.N = o->trials - g.first < o->num_envs ? o->trials - g.first : o->num_envs;
        struct mf_vec_opts v = {.env = o->env,
                                .obs = p->spec.obs,
                                .N = g.N,
                                .threads = o->threads,
                                .first_env = g.first,
                                .max_steps = o->max_steps,
                                .turn = p->spec.turn_images,
                                .state = mf_policy_state(p),
                                .seed = o->seed,
                                .reset_purpose = MF_RNG_EVAL_RESET,
                                .trail = p->spec.n_obs_steps - 1,
                                .watch = mf_reel_watch(o->reel)};
        if ((rc = mf_vec_new(&g.vec, &v, err)))
            break;
        rc = play(&g, trial, err);
        mf_vec_free(g.vec);
    }
    mf_arena_release(&arena);
    return rc;
}

struct mf_rate mf_wilson(int64_t k, int64_t n)
{
    const double z = 1.959963984540054, N = (double)n, p = (double)k / N, scale = 1 + z * z / N;
    double middle = (p + z * z / (2 * N)) / scale, half = z / scale * sqrt(p * (1 - p) / N + z * z / (4 * N * N));
    return (struct mf_rate){p, k == 0 ? 0 : middle - half, k == n ? 1 : middle + half};
}

struct mf_score_sheet mf_eval_sum(const struct mf_trial *trial, int n)
{
    struct mf_score_sheet s = {0};
    struct mf_moments ret = {0};
    int64_t once = 0, at_end = 0;
    for (int i = 0; i < n; i++) {
        once += trial[i].success_once;
        at_end += trial[i].success_at_end;
        mf_moments_add(&ret, (double)trial[i].ret);
        s.length += (double)trial[i].length / n;
        s.straightness += (double)trial[i].straightness / n;
    }
    s.ret = mf_moments_mean(&ret);
    s.ret_std = n > 1 ? sqrt(ret.square / (n - 1)) : 0;
    s.success_once = mf_wilson(once, n);
    s.success_at_end = mf_wilson(at_end, n);
    return s;
}

void mf_eval_task(const struct mf_trial *trial, int n, int task, struct mf_score_sheet *s, int *count)
{
    struct mf_trial *some = mf_xcalloc((size_t)n, sizeof *some);
    *count = 0;
    for (int i = 0; i < n; i++)
        if (trial[i].task == task)
            some[(*count)++] = trial[i];
    if (*count)
        *s = mf_eval_sum(some, *count);
    free(some);
}
