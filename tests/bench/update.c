/* update - how fast the engine updates and samples ReinFlow's Hopper policy (11 observations, 3 actions, horizon 4,
 * 512x3, K = 4, critic 256x3), as it is used: score graph, PPO and value loss, norms, AdamW.
 *
 * update [threads [rows]]: one line of key=value words each. GF/s count three times the forward pass.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "base/rng.h"
#include "flow/policy.h"

static double clock_of(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double now(void)
{
    return clock_of(CLOCK_MONOTONIC);
}

static void must(int rc, const struct mf_err *err)
{
    if (rc) {
        fprintf(stderr, "update: %s\n", err->text);
        exit(1);
    }
}

static float *normal(size_t n, float scale)
{
    float *x = malloc(sizeof *x * n);
    struct mf_rng rng = mf_rng_at(1, MF_RNG_TEST, (uint32_t)n, 0, 0);
    mf_rng_normal(&rng, x, n);
    for (size_t i = 0; i < n; i++)
        x[i] *= scale;
    return x;
}

static struct mf_policy hopper(void)
{
    struct mf_err err;
    struct mf_policy p;
    struct mf_policy_spec s = {
        .n_obs_keys = 1,
        .obs = {{"state", 11}},
        .obs_dim = 11,
        .n_obs_steps = 1,
        .action_dim = 3,
        .horizon = 4,
        .n_action_steps = 4,
        .K = 4,
        .convention = MF_NOISE0,
        .noise_method = MF_FLOW_NOISE,
        .denoise = MF_JOINT,
        .objective = MF_CHAIN_MEAN,
        .learned_noise = true,
        .net = {.O = 11, .D = 12, .n_hidden = 3, .hidden = {512, 512, 512}, .act = MF_ACT_RELU, .time_dim = 16},
        .n_critic = 3,
        .critic = {256, 256, 256},
        .n_noise = 2,
        .noise = {64, 64}};
    must(mf_net_find(&s.net.net, "reflow_mlp", &err), &err);
    must(mf_policy_init(&p, &s, &err), &err);
    mf_policy_fresh(&p, 1);
    p.noise_low = 0.1;
    p.noise_high = 0.24;
    return p;
}

/* Multiply-adds of one sample, forward: trunk and noise net for each of K steps, critic once. */
static double macs(void)
{
    double trunk = 39.0 * 512 + 2.0 * 512 * 512 + 512 * 12, noise = 27.0 * 64 + 64 * 64 + 64 * 12;
    return 4 * (trunk + noise) + 11.0 * 256 + 2.0 * 256 * 256 + 256;
}

static void update(struct mf_engine *e, struct mf_policy *p, size_t n, int tile, int lanes)
{
    struct mf_err err;
    struct mf_graph *g = mf_graph_new(&p->params);
    struct mf_score s;
    struct mf_plan *plan;
    struct mf_adam adam;
    mf_score_build(g, p, &s);
    struct mf_val old = mf_input(g, 1, 1), adv = mf_input(g, 1, 1), w = mf_input(g, 1, 1), ret = mf_input(g, 1, 1);
    struct mf_val knobs = mf_shared(g, 1, 4), v_knobs = mf_shared(g, 1, 4);
    mf_loss(g, mf_ppo_loss(g, s.logprobs, old, adv, w, knobs), 1.0f);
    mf_loss(g, mf_value_loss(g, s.value, ret, old, w, v_knobs), 0.5f);
    must(mf_plan_new(&plan, e, g, &(struct mf_plan_opts){.tile = tile, .lanes = lanes, .backward = true}, &err), &err);
    must(mf_adam_init(&adam, &p->params, &err), &err);
    mf_score_set(plan, &s, p);
    mf_plan_set(plan, knobs, (float[]){1000.0f, 0.0f, 0.0f, 0.0f}); /* no row is clipped: every one is computed */
    mf_plan_set(plan, v_knobs, (float[]){0.0f, 0.0f, 0.0f, 0.0f});

    float *obs = normal(n * 11, 1.0f), *chain = normal(n * 60, 1.0f), *one = normal(n * 2, 1.0f);
    float coef[12], weight = 1.0f / (float)n, zero = 0.0f, worst = 1e9f, sum = 0.0f;
    for (int k = 0; k < 4; k++)
        mf_flow_coef(&p->spec, k, 0.0, true, coef + 3 * k);
    struct mf_feed feeds[] = {{s.obs, obs, 11, false}, {s.chain, chain, 60, false}, {s.coef, coef, 0, false},
                              {old, &zero, 0, false},  {adv, one, 1, false},        {w, &weight, 0, true},
                              {ret, one + n, 1, false}};
    int rounds = (int)(2e11 / (6.0 * macs() * (double)n)) + 3;
    double cpu = 1e9; /* the least of a core's time: what a busy neighbour leaves alone */
    for (int r = 0; r < rounds; r++) {
        double norm[MF_GROUPS + 1], t = now(), c = clock_of(CLOCK_PROCESS_CPUTIME_ID);
        must(mf_plan_run(plan, n, NULL, feeds, 7, NULL, 0, &err), &err);
        mf_grad_norms(e, &p->params, mf_plan_grads(plan), norm);
        mf_adam_step(e, &adam, &p->params, mf_plan_grads(plan), (double[]){1e-5, 1e-5, 1e-5, 0},
                     (double[]){1, 1, 1, 1});
        float took = (float)(now() - t);
        worst = took < worst ? took : worst;
        sum += r ? took : 0.0f;
        c = clock_of(CLOCK_PROCESS_CPUTIME_ID) - c;
        cpu = c < cpu ? c : cpu;
    }
    double mean = (double)sum / (rounds - 1), gf = 6e-9 * macs() * (double)n;
    printf("update rows=%zu threads=%d tile=%d lanes=%d ms=%.2f gflops=%.1f best_gflops=%.1f cpu_gflops=%.1f "
           "plan_mib=%.1f\n",
           n, mf_engine_threads(e), tile, lanes, 1e3 * mean, gf / mean, gf / (double)worst, gf / cpu,
           (double)mf_plan_bytes(plan) / 1048576.0);
    mf_adam_release(&adam);
    mf_plan_free(plan);
    mf_graph_free(g);
    free(obs);
    free(chain);
    free(one);
}

static void sample(struct mf_engine *e, struct mf_policy *p, int n)
{
    struct mf_err err;
    struct mf_sampler *s;
    must(mf_sampler_new(&s, e, p, false, &err), &err);
    size_t N = (size_t)n;
    float *obs = normal(N * 11, 1.0f), *noise = normal(N * 12, 1.0f), *eps = normal(N * 48, 1.0f);
    float *chains = normal(N * 60, 1.0f), *logprobs = normal(N, 1.0f), *values = normal(N + 1, 1.0f);
    float *actions = normal(N * 12, 1.0f);
    struct mf_sample x = {obs, noise, eps, NULL, chains, logprobs, values, actions};
    double least = 1e9, sum = 0.0;
    int rounds = 1000 / n + 100;
    for (int r = 0; r < rounds; r++) {
        double t = now();
        must(mf_sampler_run(s, n, &x, &err), &err);
        t = now() - t;
        least = t < least ? t : least;
        sum += r ? t : 0.0;
    }
    printf("sample rows=%d threads=%d us=%.1f best_us=%.1f\n", n, mf_engine_threads(e), 1e6 * sum / (rounds - 1),
           1e6 * least);
    mf_sampler_free(s);
    free(obs), free(noise), free(eps), free(chains), free(logprobs), free(values), free(actions);
}

int main(int argc, char **argv)
{
    struct mf_err err;
    struct mf_engine *e;
    int threads = argc > 1 ? atoi(argv[1]) : 0, tile = argc > 3 ? atoi(argv[3]) : 0,
        lanes = argc > 4 ? atoi(argv[4]) : 0;
    must(mf_engine_open(&e, "cpu", threads, MF_FP32, &err), &err);
    struct mf_policy p = hopper();
    if (argc > 2) {
        update(e, &p, (size_t)atoi(argv[2]), tile, lanes);
    } else {
        update(e, &p, 512, 0, 0);
        update(e, &p, 4096, 0, 0);
        for (int i = 0; i < 3; i++)
            sample(e, &p, (int[]){1, 8, 40}[i]);
    }
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    printf("memory peak_mib=%.1f\n", (double)u.ru_maxrss / 1024.0);
    mf_policy_release(&p);
    mf_engine_close(e);
    return 0;
}
