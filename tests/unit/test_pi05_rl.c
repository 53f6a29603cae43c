/* pi0.5 as a policy of an environment with fewer numbers in an action: chains, log-probabilities and gradients of PPO
 * against the published code (tests/reference/pi05.py); the ratio is 1; bits are the same for all threads and tiles. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "device_under_test.h"
#include "flow/grid.h"
#include "flow/ops.h"
#include "flow/sampler.h"
#include "flow/score.h"
#include "graph/plan.h"
#include "op/ops.h"
#include "pi05.h"
#include "rl/ppo.h"

enum { K = 4, C = 2, E = 3 };

static struct mf_engine *engine;

struct rl_case {
    const char *name;
    enum mf_noise_method method;
    int drawn; /* -1: all steps */
};

static const struct rl_case cases[] = {
    {"sde_single0", MF_FLOW_SDE, 0},    {"sde_single1", MF_FLOW_SDE, 1}, {"sde_single2", MF_FLOW_SDE, 2},
    {"sde_single3", MF_FLOW_SDE, 3},    {"sde_joint", MF_FLOW_SDE, -1},  {"cps_single1", MF_FLOW_CPS, 1},
    {"noise_joint", MF_FLOW_NOISE, -1},
};

static struct mf_policy policy_of(const struct rl_case *c)
{
    struct mf_policy_spec s = pi05_spec();
    s.action_dim = E;
    s.net.action_width = A;
    s.n_action_steps = C;
    s.noise_method = c->method;
    s.denoise = c->drawn < 0 ? MF_JOINT : MF_SINGLE;
    s.objective = c->drawn < 0 ? MF_STEP_MEAN : MF_STEP;
    s.learned_noise = c->method == MF_FLOW_NOISE;
    struct mf_policy p = pi05_policy(&s);
    float *range = pi05_read("rl/noise_range", 2);
    if (s.learned_noise)
        mf_policy_set_noise(&p, (double)range[0], (double)range[1]);
    else
        mf_policy_set_noise(&p, .5, .5);
    free(range);
    return p;
}

struct sampled {
    float chains[B * (K + 1) * D], logprobs[B * C * E], values[B], actions[B * C * E];
};

static void sample(struct mf_engine *e, struct mf_policy *p, const struct rl_case *c, const float *obs,
                   struct sampled *to)
{
    struct mf_sampler *m;
    struct mf_err err;
    int32_t inds[B * K];
    float *noise = pi05_read("noise", B * D), *eps = pi05_read("rl/eps", B * K * D);
    for (int i = 0; i < B * K; i++)
        inds[i] = c->drawn < 0 ? i % K : c->drawn;
    must(mf_sampler_new(&m, e, p, false, &err), &err);
    must(mf_sampler_run(m, B,
                        &(struct mf_sample){.obs = obs,
                                            .noise = noise,
                                            .eps = eps,
                                            .inds = inds,
                                            .chains = to->chains,
                                            .logprobs = to->logprobs,
                                            .values = to->values,
                                            .actions = to->actions},
                        &err),
         &err);
    mf_sampler_free(m);
    free(noise), free(eps);
}

static void chains(const struct rl_case *c, const float *obs)
{
    struct mf_policy p = policy_of(c);
    static struct sampled got;
    char name[64];
    sample(engine, &p, c, obs, &got);
    snprintf(name, sizeof name, "rl/%s/chains", c->name);
    pi05_same(name, got.chains, B * (K + 1), D, NULL, 2e-5);
    snprintf(name, sizeof name, "rl/%s/logprobs", c->name);
    pi05_same(name, got.logprobs, B, C * E, NULL, 1e-4);
    pi05_same("rl/value/valid_only", got.values, B, 1, NULL, 2e-5);
    double worst = 0;
    for (int i = 0; i < B * C * E; i++)
        worst = worse(worst, fabs((double)got.actions[i] -
                                  (double)got.chains[((i / (C * E) + 1) * (K + 1) - 1) * D + i / E % C * A + i % E]));
    ok(worst == 0, "%s: the first %d of %d numbers of %d actions are executed", c->name, E, A, C);
    mf_policy_release(&p);
}

/* Log-probabilities of stored chains, and -mean(advantage exp(new - old)) with its gradient. */
static void score(const struct rl_case *c, const float *obs, int gradients)
{
    struct mf_policy p = policy_of(c);
    static struct sampled got;
    static float rows[B * (K + 1) * D], coef[B * K * 3], times[B], again[B * C * E], value[B], weight[B];
    const int k = c->drawn < 0 ? K : 1, points = k + 1;
    struct mf_err err;
    struct mf_score s;
    sample(engine, &p, c, obs, &got);
    struct mf_graph *g = mf_graph_new(&p.params);
    mf_score_build(g, &p, &s);
    struct mf_val w = mf_input(g, 1, 1), sum = mf_reduce(g, s.logprobs, MF_NONE, MF_REDUCE_CHUNK, E, C, 0, 1);
    mf_loss(g, mf_weigh(g, sum, w), 1); /* at ratio 1 the gradient of the ratio is that of the log-probability */
    struct mf_plan *plan;
    must(mf_plan_new(&plan, engine, g, &(struct mf_plan_opts){.backward = true}, &err), &err);
    mf_score_set(plan, &s, &p);
    float *advantages = pi05_read("rl/advantages", B);
    for (int b = 0; b < B; b++) {
        const int first = c->drawn < 0 ? 0 : c->drawn;
        memcpy(rows + b * points * D, got.chains + (b * (K + 1) + first) * D, sizeof *rows * (size_t)(points * D));
        for (int i = 0; i < k; i++)
            mf_flow_coef(&p.spec, first + i, p.noise_high, true, coef + (b * k + i) * 3);
        times[b] = (float)mf_flow_time(&p.spec, first);
        weight[b] = -advantages[b] / B;
    }
    struct mf_feed feed[] = {{s.obs, obs, O, false},
                             {s.chain, rows, (size_t)(points * D), false},
                             {s.coef, coef, (size_t)(k * 3), false},
                             {w, weight, 1, false},
                             {s.time, times, 1, false}};
    struct mf_fetch fetch[] = {{s.logprobs, again, C * E}, {s.value, value, 1}};
    must(mf_plan_run(
             plan,
             &(struct mf_batch){.n = B, .feed = feed, .n_feeds = c->drawn < 0 ? 4 : 5, .fetch = fetch, .n_fetches = 2},
             &err),
         &err);
    ok(!memcmp(again, got.logprobs, sizeof again), "%s: the ratio is exactly 1", c->name);
    ok(!memcmp(value, got.values, sizeof value), "%s: values are those of the rollout", c->name);
    if (gradients) {
        char name[64];
        snprintf(name, sizeof name, "rl/%s/grad", c->name);
        pi05_gradients(name, &p.params, mf_plan_grads(plan), gradients);
    }
    mf_plan_free(plan);
    mf_graph_free(g);
    mf_policy_release(&p);
    free(advantages);
}

static void threads(const struct rl_case *c, const float *obs)
{
    static struct sampled one, other;
    struct mf_policy p = policy_of(c);
    sample(engine, &p, c, obs, &one);
    for (int n = 1; n <= 4; n += n) {
        struct mf_engine *e;
        struct mf_err err;
        must(mf_engine_open(&e, device_under_test(), n, MF_FP32, &err), &err);
        sample(e, &p, c, obs, &other);
        ok(!memcmp(&one, &other, sizeof one), "%d threads: the same bits", n);
        mf_engine_close(e);
    }
    mf_policy_release(&p);
}

/* Methods that score no denoising step: the sampler's log-probabilities are the learner's. */
static void ratio_is_one(const char *what, struct mf_policy_spec s, const float *obs)
{
    enum { M = 3 };
    static float noise[B * M * D], time[B * M], coef[B * M * 3], start[B * D], samples[B * D], values[B];
    float actions[B * C * E], logp[B * C * E], again[B * C * E];
    uint64_t keys[B];
    struct mf_policy p;
    struct mf_sampler *m;
    struct mf_score q;
    struct mf_plan *plan;
    struct mf_err err;
    must(mf_policy_init(&p, &s, &err), &err);
    mf_policy_fresh(&p, 3);
    struct mf_rng rng = mf_rng_at(1, MF_RNG_TEST, 0, 0, 0);
    mf_rng_normal(&rng, start, B * D);
    for (int i = 0; i < B; i++) {
        keys[i] = (uint64_t)i + 7;
        if (mf_policy_is_fpo(&s))
            mf_fpo_draw(&p.spec, keys[i], &(struct mf_fpo_draws){noise + i * M * D, time + i * M, coef + i * M * 3});
    }
    must(mf_sampler_new(&m, engine, &p, false, &err), &err);
    const struct mf_sample x = {.obs = obs,
                                .noise = start,
                                .draws = keys,
                                .samples = samples,
                                .logprobs = logp,
                                .values = values,
                                .actions = actions};
    must(mf_sampler_run(m, B, &x, &err), &err);
    struct mf_graph *g = mf_graph_new(&p.params);
    mf_score_build(g, &p, &q);
    must(mf_plan_new(&plan, engine, g, &(struct mf_plan_opts){.backward = false}, &err), &err);
    mf_score_set(plan, &q, &p);
    const size_t E1 = (size_t)mf_logprob_width(&s);
    const struct mf_feed feed[] = {{.input = q.obs, .base = obs, .stride = (size_t)p.spec.net.O},
                                   {.input = q.chain, .base = samples, .stride = D},
                                   {.input = q.fpo.noise, .base = noise, .stride = M * D},
                                   {.input = q.time, .base = time, .stride = M},
                                   {.input = q.coef, .base = coef, .stride = M * 3}};
    const struct mf_fetch fetch = {.value = q.logprobs, .base = again, .stride = E1};
    must(
        mf_plan_run(plan,
                    &(struct mf_batch){
                        .n = B, .feed = feed, .n_feeds = mf_policy_is_fpo(&s) ? 5 : 2, .fetch = &fetch, .n_fetches = 1},
                    &err),
        &err);
    ok(!memcmp(logp, again, B * E1 * sizeof *logp) && isfinite(logp[0]) && logp[0] != logp[E1], "%s: ratio 1", what);
    mf_plan_free(plan);
    mf_graph_free(g);
    mf_sampler_free(m);
    mf_policy_release(&p);
}

static void methods(const float *obs)
{
    struct mf_policy_spec s = pi05_spec();
    struct mf_policy p;
    struct mf_ppo *ppo;
    struct mf_err err;
    s.action_dim = E;
    s.net.action_width = A;
    s.n_action_steps = C;
    s.objective = MF_CHAIN_MEAN;
    must(mf_policy_init(&p, &s, &err), &err);
    const struct mf_ppo_opts rfc = {
        .num_epochs = 1, .batch_size = 2, .repeat_samples = 1, .clip_range = .2, .rfc_coef = .05};
    ok(mf_ppo_new(&ppo, engine, &p, &rfc, &err) == 0, "PPO with reflow consistency");
    mf_ppo_free(ppo);
    mf_policy_release(&p);
    s.noise_method = MF_FLOW_ODE;
    s.objective = MF_FPO;
    s.fpo_draws = 3;
    ratio_is_one("FPO", s, obs);
    s.objective = MF_CHAIN_MEAN;
    s.steer = MF_STEER_PPO;
    s.n_steer_hidden = 1;
    s.steer_hidden[0] = 16;
    ratio_is_one("DSRL", s, obs);
}

int main(void)
{
    struct mf_err err;
    must(mf_engine_open(&engine, device_under_test(), 2, MF_FP32, &err), &err);
    pi05_open();
    float *obs = pi05_observations();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        chains(&cases[i], obs);
        score(&cases[i], obs, i == 2 ? 14 : i == 6 ? 20 : 0);
    }
    threads(&cases[6], obs);
    methods(obs);
    struct mf_policy_spec s = pi05_spec();
    s.net.action_width = A - 1;
    refuses(s, "policy.action_width=7 is less than");
    free(obs);
    pi05_close();
    mf_engine_close(engine);
    return done();
}
