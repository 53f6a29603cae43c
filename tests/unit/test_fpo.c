/* FPO: losses and gradients against PyTorch, the draws, and the ratio that is exactly 1. */
#include "base/rng.h"
#include "device_under_test.h"
#include "dev/device.h"
#include "flow/ops.h"
#include "flow/sampler.h"
#include "flow/score.h"
#include "policies.h"

enum { B = 3, O = 5, D = 6, A = 2, C = 2, M = 5, N = 67 };

static struct mf_engine *engine;
static struct fixture fixture;

static struct mf_policy policy_of(struct mf_policy_spec s)
{
    struct mf_err err;
    struct mf_policy p;
    must(mf_policy_init(&p, &s, &err), &err);
    mf_policy_fresh(&p, 5);
    return p;
}

static struct mf_policy_spec fpo_spec(const char *net, enum mf_convention convention, enum mf_objective objective)
{
    struct mf_policy_spec s = small_spec(net);
    s.convention = convention;
    s.objective = objective;
    s.noise_method = MF_FLOW_ODE;
    s.fpo_draws = M;
    return s;
}

struct scorer {
    struct mf_graph *g;
    struct mf_plan *plan;
    struct mf_score s;
};

static struct scorer scorer_of(struct mf_policy *p)
{
    struct mf_err err;
    struct scorer q = {.g = mf_graph_new(&p->params)};
    mf_score_build(q.g, p, &q.s);
    const bool whole = mf_cols(q.g, q.s.logprobs) == 1;
    mf_loss(q.g, whole ? q.s.logprobs : mf_reduce(q.g, q.s.logprobs, MF_NONE, MF_REDUCE_ALL, 1, 1, 0, 1.0f / M), 1);
    must(mf_plan_new(&q.plan, engine, q.g, &(struct mf_plan_opts){.backward = true}, &err), &err);
    mf_score_set(q.plan, &q.s, p);
    return q;
}

static void scorer_free(struct scorer *q)
{
    mf_plan_free(q->plan);
    mf_graph_free(q->g);
}

static void score(const struct scorer *q, size_t n, const float *obs, const float *sample,
                  const struct mf_fpo_draws *draws, float *logprobs, size_t E)
{
    struct mf_err err;
    const struct mf_feed feed[] = {{.input = q->s.obs, .base = obs, .stride = O},
                                   {.input = q->s.chain, .base = sample, .stride = D},
                                   {.input = q->s.fpo.noise, .base = draws->noise, .stride = M * D},
                                   {.input = q->s.time, .base = draws->time, .stride = M},
                                   {.input = q->s.coef, .base = draws->coef, .stride = M * 3}};
    const struct mf_fetch fetch = {.value = q->s.logprobs, .base = logprobs, .stride = E};
    must(mf_plan_run(q->plan, &(struct mf_batch){.n = n, .feed = feed, .n_feeds = 5, .fetch = &fetch, .n_fetches = 1},
                     &err),
         &err);
}

/* ---- against PyTorch ---- */

static float *record(const char *name, const char *what)
{
    char key[64];
    snprintf(key, sizeof key, "%s.%s", name, what);
    return fixture_find(&fixture, key, NULL);
}

static void losses_as_torch(const char *name, struct mf_policy_spec s)
{
    struct mf_policy p = policy_of(s);
    char key[64];
    int found;
    snprintf(key, sizeof key, "%s.param", name);
    load_params(&fixture, key, &p.params, p.params.value);
    mf_params_touch(&p.params);
    float *obs = record(name, "obs"), *sample = record(name, "sample"), *noise = record(name, "noise"),
          *time = record(name, "time"), *losses = record(name, "losses"), coef[B * M * 3], got[B * M];
    for (int i = 0; i < B * M; i++) {
        coef[3 * i] = s.convention == MF_NOISE0 ? 1 - time[i] : time[i];
        coef[3 * i + 1] = 1 - coef[3 * i];
        coef[3 * i + 2] = sqrtf(.5f);
    }
    struct scorer q = scorer_of(&p);
    const int E = mf_logprob_width(&s), each = M / E;
    double worst = 0;
    score(&q, B, obs, sample, &(struct mf_fpo_draws){noise, time, coef}, got, (size_t)E);
    for (int i = 0; i < B * E; i++) {
        double want = 0;
        for (int m = 0; m < each; m++)
            want += (double)losses[i * each + m] / each;
        worst = fmax(worst, fabs(-(double)got[i] - .5 * log(M_PI) - want) / want);
    }
    ok(worst < 1e-5, "%s, %d numbers a decision: losses, relative error %.1e", name, E, worst);
    snprintf(key, sizeof key, "%s.grad", name);
    const double error = grads_error(&fixture, key, &p.params, mf_plan_grads(q.plan), &found);
    ok(error < 1e-5 && found > 8, "%s: gradients of %d tensors, relative error %.1e", name, found, error);
    scorer_free(&q);
    mf_policy_release(&p);
    free(obs), free(sample), free(noise), free(time), free(losses);
}

static void as_torch(const char *name, const char *net, enum mf_convention convention, enum mf_act act, int cond)
{
    for (enum mf_objective o = MF_FPO; o <= MF_FPO_EACH; o++) {
        struct mf_policy_spec s = fpo_spec(net, convention, o);
        s.net.act = act;
        if (cond) {
            s.net.n_cond = 2;
            s.net.cond[0] = 7, s.net.cond[1] = 5;
        }
        losses_as_torch(name, s);
    }
}

/* ---- draws ---- */

static void draws(void)
{
    enum { MANY = 64 };
    struct mf_policy_spec s = fpo_spec("reflow_mlp", MF_NOISE0, MF_FPO);
    static float noise[2][MANY * D], time[2][MANY], coef[2][MANY * 3];
    double mean = 0, square = 0, when = 0;
    int fine = 1;
    s.fpo_draws = MANY;
    s.net.D = D;
    for (int i = 0; i < 2; i++) {
        s.convention = i ? MF_NOISE1 : MF_NOISE0;
        mf_fpo_draw(&s, 77, &(struct mf_fpo_draws){noise[i], time[i], coef[i]});
        for (int m = 0; m < MANY; m++) {
            const float *c = coef[i] + 3 * m, t = time[i][m];
            fine &= t >= 0 && t < 1 && c[0] == (i ? t : 1 - t) && c[0] + c[1] == 1 && c[2] == sqrtf(.5f);
            when += (double)t / (2 * MANY);
        }
    }
    ok(fine, "x is on the path between noise and action, at the time of the convention");
    ok(!memcmp(noise[0], noise[1], sizeof noise[0]) && !memcmp(time[0], time[1], sizeof time[0]),
       "a key names the same draws");
    for (int i = 0; i < MANY * D; i++) {
        mean += (double)noise[0][i] / (MANY * D);
        square += (double)noise[0][i] * (double)noise[0][i] / (MANY * D);
    }
    ok(fabs(mean) < .2 && fabs(square - 1) < .25 && fabs(when - .5) < .15, "N(0, 1) and U(0, 1): %g, %g, %g", mean,
       square, when);
    mf_fpo_draw(&s, 78, &(struct mf_fpo_draws){noise[1], time[1], coef[1]});
    ok(noise[0][0] != noise[1][0] && time[0][0] != time[1][0], "another key, other draws");
}

/* ---- the ratio ---- */

static void ratio_is_one(struct mf_policy_spec s)
{
    static float obs[N * O], start[N * D], sample[N * D], noise[N * M * D], time[N * M], coef[N * M * 3];
    static float logp[N * M], again[N * M], values[N], actions[N * C * A];
    static const int sizes[] = {1, 3, N};
    uint64_t keys[N];
    struct mf_err err;
    struct mf_policy p = policy_of(s);
    struct mf_sampler *m;
    struct mf_rng rng = mf_rng_at(1, MF_RNG_TEST, 0, 0, 0);
    const struct mf_fpo_draws all = {noise, time, coef};
    const size_t E = (size_t)mf_logprob_width(&s);
    int same = 1;
    must(mf_sampler_new(&m, engine, &p, false, &err), &err);
    mf_rng_normal(&rng, obs, N * O);
    mf_rng_normal(&rng, start, N * D);
    for (int i = 0; i < N; i++) {
        keys[i] = (uint64_t)mf_rng_u32(&rng) << 32 | (uint64_t)i;
        mf_fpo_draw(&p.spec, keys[i], &(struct mf_fpo_draws){noise + i * M * D, time + i * M, coef + i * M * 3});
    }
    struct scorer q = scorer_of(&p);
    for (int i = 0; i < 3; i++) {
        const struct mf_sample x = {.obs = obs,
                                    .noise = start,
                                    .draws = keys,
                                    .samples = sample,
                                    .logprobs = logp,
                                    .values = values,
                                    .actions = actions};
        must(mf_sampler_run(m, sizes[i], &x, &err), &err);
        score(&q, (size_t)sizes[i], obs, sample, &all, again, E);
        same &= !memcmp(logp, again, (size_t)sizes[i] * E * sizeof *logp);
    }
    ok(same && isfinite(logp[0]) && logp[0] != logp[E], "ratio 1: %s noise%d, %zu numbers a decision", s.net.net->name,
       s.convention, E);
    mf_sampler_free(m);
    scorer_free(&q);
    mf_policy_release(&p);
}

int main(void)
{
    struct mf_err err;
    must(mf_engine_open(&engine, device_under_test(), 2, MF_FP32, &err), &err);
    fixture = fixture_load("tests/fixtures/fpo.bin");
    draws();
    as_torch("reflow", "reflow_mlp", MF_NOISE0, MF_ACT_RELU, 0);
    as_torch("noise1", "reflow_mlp", MF_NOISE1, MF_ACT_MISH, 1);
    as_torch("shortcut", "shortcut_mlp", MF_NOISE0, MF_ACT_MISH, 0);
    for (enum mf_objective o = MF_FPO; o <= MF_FPO_EACH; o++)
        for (enum mf_convention c = MF_NOISE0; c <= MF_NOISE1; c++) {
            ratio_is_one(fpo_spec("reflow_mlp", c, o));
            ratio_is_one(fpo_spec("shortcut_mlp", c, o));
        }
    free(fixture.bytes);
    mf_engine_close(engine);
    return done();
}
