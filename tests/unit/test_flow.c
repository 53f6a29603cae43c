/* Grids and coefficients in closed form, scoring against PyTorch, and the ratio that is exactly 1. */
#include "base/rng.h"
#include "flow/grid.h"
#include "flow/ops.h"
#include "flow/sampler.h"
#include "flow/score.h"
#include "device_under_test.h"
#include "policies.h"

enum { O = 5, D = 6, A = 2, C = 2, OFFSET = 1, K = 4, N = 257 };

static struct mf_engine *engine;
static struct fixture fixture;

static struct mf_policy policy_of(struct mf_policy_spec s)
{
    struct mf_err err;
    struct mf_policy p;
    must(mf_policy_init(&p, &s, &err), &err);
    p.noise_low = .1, p.noise_high = .24;
    mf_policy_fresh(&p, 5);
    for (int i = 0; i < O; i++)
        p.obs_scale[i] = .7f + .1f * (float)i, p.obs_offset[i] = .05f * (float)i;
    for (int i = 0; i < A; i++)
        p.action_scale[i] = 1.3f, p.action_offset[i] = -.1f;
    return p;
}

/* A narrow range far from 0 keeps its places; elsewhere no bit is other than float's. */
static void far_ranges(void)
{
    struct mf_policy p = policy_of(small_spec("reflow_mlp"));
    const float low = .83f, obs[5] = {.1f, low, nextafterf(low, 1), -3, 1000.0005f};
    float out[5];
    p.obs_scale[1] = p.obs_scale[2] = 2e6f, p.obs_offset[1] = p.obs_offset[2] = (float)(-1 - 2e6 * (double)low);
    p.obs_scale[4] = 2000, p.obs_offset[4] = -2000000;
    mf_policy_normalize(&p, 1, obs, out);
    for (int i = 0; i < 5; i++) {
        const double exact = (double)obs[i] * (double)p.obs_scale[i] + (double)p.obs_offset[i];
        ok(fabsf(p.obs_offset[i]) >= MF_FAR ? out[i] == (float)exact
                                            : out[i] == obs[i] * p.obs_scale[i] + p.obs_offset[i],
           "number %d is normalised to %g", i, (double)out[i]);
    }
    mf_policy_release(&p);
}

/* ---- closed forms ---- */

static void coef_is(enum mf_noise_method method, int steps, double level, int k, double cx, double cv, double std)
{
    float a[3], b[3];
    struct mf_policy_spec s = {.K = steps, .noise_method = method, .convention = MF_NOISE1};
    mf_flow_coef(&s, k, level, true, a);
    s.convention = MF_NOISE0;
    mf_flow_coef(&s, k, level, true, b);
    int good = fabs(a[0] - cx) < 1e-6 && fabs(a[1] - cv) < 1e-6 && fabs(a[2] - std) < 1e-6;
    ok(good, "method %d, K %d, level %g, step %d: (%g, %g, %g)", method, steps, level, k, a[0], a[1], a[2]);
    ok(b[0] == a[0] && b[1] == -a[1] && b[2] == a[2], "the same in noise0, where v points the other way");
}

static void coefficients(void)
{
    static const double sde[4][3] = {
        {.875, -.25, .5}, {.875, -.28125, .4330127}, {.9375, -.28125, .25}, {.9583333, -.28125, .1443376}};
    static const double std2[4] = {.2, .17320508, .1, .057735027};
    for (int k = 0; k < 4; k++)
        coef_is(MF_FLOW_SDE, 4, .5, k, sde[k][0], sde[k][1], sde[k][2]);
    coef_is(MF_FLOW_SDE, 1, .5, 0, .875, -1, .5);
    for (int k = 0; k < 4; k++) {
        float c[3];
        mf_flow_coef(&(struct mf_policy_spec){.K = 4, .noise_method = MF_FLOW_SDE}, k, .2, true, c);
        near(c[2], std2[k], 1e-7, "std at level .2");
    }
    /* x' = (x - t v)(1 - t') + (x + (1-t) v) t' cos(pi level/2), std = t' sin(pi level/2) */
    for (int k = 0; k < 4; k++) {
        double t = 1 - k / 4.0, to = t - .25, a = 1 - to, b = to * cos(M_PI / 4), std = to * sin(M_PI / 4);
        coef_is(MF_FLOW_CPS, 4, .5, k, a + b, -t * a + (1 - t) * b, std);
    }
    for (int steps = 1; steps < 20; steps++) {
        float c[3];
        struct mf_policy_spec s = {.K = steps, .noise_method = MF_FLOW_CPS};
        mf_flow_coef(&s, steps - 1, .7, true, c);
        ok(c[2] == 0, "flow_cps ends without noise, K %d", steps);
    }
    coef_is(MF_FLOW_NOISE, 8, .15, 3, 1, -1 / 8., .15);
    for (int m = MF_FLOW_ODE; m <= MF_FLOW_CPS; m++) {
        float c[3];
        struct mf_policy_spec s = {.K = 5, .noise_method = (enum mf_noise_method)m, .convention = MF_NOISE0};
        mf_flow_coef(&s, 2, .4, false, c);
        ok(c[0] == 1 && c[1] == .2f && c[2] == 0, "not stochastic: an Euler step");
    }
}

static void grids(void)
{
    struct mf_policy_spec a = {.K = 5, .convention = MF_NOISE0}, b = {.K = 5, .convention = MF_NOISE1};
    for (int k = 0; k < 5; k++)
        ok(mf_flow_time(&a, k) == k / 5.0 && mf_flow_time(&b, k) == (5 - k) / 5.0, "t_%d", k);
    near(mf_noise_level(MF_CONSTANT, .1, .3, .5), .3, 1e-12, "constant");
    near(mf_noise_level(MF_LINEAR, .1, .3, .25), .25, 1e-12, "linear");
    near(mf_noise_level(MF_LINEAR, .1, .3, 7), .1, 1e-12, "linear, past its end");
    near(mf_noise_level(MF_EXPONENTIAL, .1, .3, 1), .1 + .2 * exp(-3), 1e-12, "exponential");
    near(mf_noise_level(MF_HOLD_COSINE, .1, .3, .32), .3, 1e-12, "held");
    near(mf_noise_level(MF_HOLD_COSINE, .1, .3, .675), .5 * (.3 + .24), 1e-12, "half of the cosine");
    near(mf_noise_level(MF_HOLD_COSINE, .1, .3, 1), .3 * .1 + .7 * .3, 1e-12, "the cosine's end");
}

/* ---- scoring ---- */

struct scorer {
    struct mf_graph *g;
    struct mf_plan *plan;
    struct mf_score s;
    struct mf_policy *p;
};

static struct scorer scorer_of(struct mf_policy *p, bool backward)
{
    struct mf_err err;
    struct scorer m = {.g = mf_graph_new(&p->params), .p = p};
    mf_score_build(m.g, p, &m.s);
    if (backward) { /* a loss of one number, as the learner's */
        bool whole = mf_cols(m.g, m.s.logprobs) == 1;
        mf_loss(m.g, whole ? m.s.logprobs : mf_reduce(m.g, m.s.elements, MF_NONE, MF_REDUCE_CHUNK, A, C, OFFSET, 1), 1);
        mf_loss(m.g, m.s.value, 1);
        if (m.s.entropy.id)
            mf_loss(m.g, m.s.entropy, .5f);
    }
    must(mf_plan_new(&m.plan, engine, m.g, &(struct mf_plan_opts){.backward = backward}, &err), &err);
    mf_score_set(m.plan, &m.s, p);
    return m;
}

static void scorer_free(struct scorer *m)
{
    mf_plan_free(m->plan);
    mf_graph_free(m->g);
}

/* obs normalised; inds (n, K) for single. */
static void score(struct scorer *m, size_t n, const float *obs, const float *chains, const int32_t *inds,
                  const struct mf_fetch *fetches, int n_fetches)
{
    static float pairs[N * 2 * D], times[N], coef[N * 3 * K];
    const struct mf_policy_spec *s = &m->p->spec;
    struct mf_err err;
    struct mf_feed feed[4] = {{m->s.obs, obs, O, false}};
    if (s->denoise == MF_JOINT) {
        for (int k = 0; k < K; k++)
            mf_flow_coef(s, k, m->p->noise_high, true, coef + 3 * k);
        feed[1] = (struct mf_feed){m->s.chain, chains, (K + 1) * D, false};
        feed[2] = (struct mf_feed){m->s.coef, coef, 0, false};
    } else {
        for (size_t i = 0; i < n; i++) {
            int k = inds[i * K];
            memcpy(pairs + i * 2 * D, chains + i * (K + 1) * D + (size_t)k * D, 2 * D * sizeof *pairs);
            mf_flow_coef(s, k, m->p->noise_high, true, coef + 3 * i);
            times[i] = (float)mf_flow_time(s, k);
        }
        feed[1] = (struct mf_feed){m->s.chain, pairs, 2 * D, false};
        feed[2] = (struct mf_feed){m->s.coef, coef, 3, false};
        feed[3] = (struct mf_feed){m->s.time, times, 1, false};
    }
    struct mf_batch batch = {
        .n = n, .feed = feed, .n_feeds = s->denoise == MF_JOINT ? 3 : 4, .fetch = fetches, .n_fetches = n_fetches};
    must(mf_plan_run(m->plan, &batch, &err), &err);
}

static void compare(const char *what, const char *record, const float *got)
{
    char name[64];
    size_t n = 0;
    double worst = 0, scale = 0;
    snprintf(name, sizeof name, "%s.%s", what, record);
    float *want = fixture_find(&fixture, name, &n);
    for (size_t i = 0; i < n; i++) {
        worst = worse(worst, fabs((double)got[i] - want[i]));
        scale = fmax(scale, fabs(want[i]));
    }
    ok(worst <= 1e-5 * scale, "%s: relative error %.1e", name, worst / scale);
    free(want);
}

static void velocity_as_torch(const char *name, struct mf_policy *p, const float *obs, const float *chain)
{
    enum { B = 3 };
    struct mf_err err;
    const struct mf_net_spec *s = &p->spec.net;
    struct mf_graph *g = mf_graph_new(&p->params);
    struct mf_val o = mf_input(g, 1, O), x = mf_input(g, K, D), t = mf_input(g, K, 1), d = MF_NONE;
    if (s->net->step_size)
        d = mf_input(g, K, 1);
    struct mf_share a = mf_net_features(g, s, o, false), b = s->net->time(g, s, t, d);
    s->net->encode(g, s, &a);
    struct mf_val v = s->net->velocity(g, s, &a, &b, x);
    struct mf_plan *plan;
    must(mf_plan_new(&plan, engine, g, &(struct mf_plan_opts){0}, &err), &err);
    float times[K], steps[K], got[B * K * D];
    for (int k = 0; k < K; k++)
        times[k] = (float)mf_flow_time(&p->spec, k), steps[k] = 1.0f / K;
    struct mf_feed feed[] = {
        {o, obs, O, false}, {x, chain, (K + 1) * D, false}, {t, times, 0, false}, {d, steps, 0, false}};
    must(mf_plan_run(plan,
                     &(struct mf_batch){.n = B,
                                        .feed = feed,
                                        .n_feeds = d.id ? 4 : 3,
                                        .fetch = &(struct mf_fetch){v, got, K * D},
                                        .n_fetches = 1},
                     &err),
         &err);
    compare(name, "v", got);
    mf_plan_free(plan);
    mf_graph_free(g);
}

static void as_torch(const char *name, struct mf_policy_spec s)
{
    enum { B = 3 };
    struct mf_policy p = policy_of(s);
    char key[64];
    snprintf(key, sizeof key, "%s.param", name);
    load_params(&fixture, key, &p.params, p.params.value);
    mf_params_touch(&p.params);
    snprintf(key, sizeof key, "%s.obs", name);
    float *obs = fixture_find(&fixture, key, NULL);
    snprintf(key, sizeof key, "%s.chain", name);
    float *chain = fixture_find(&fixture, key, NULL), logp[B * C * A], elements[B * K * D], value[B], entropy[B];
    velocity_as_torch(name, &p, obs, chain);

    struct scorer m = scorer_of(&p, true);
    struct mf_fetch fetch[] = {
        {m.s.logprobs, logp, 1}, {m.s.elements, elements, K * D}, {m.s.value, value, 1}, {m.s.entropy, entropy, 1}};
    score(&m, B, obs, chain, NULL, fetch, m.s.entropy.id ? 4 : 3);
    compare(name, "chain_mean", logp);
    compare(name, "elements", elements);
    compare(name, "value", value);
    if (m.s.entropy.id)
        compare(name, "entropy", entropy);
    int found;
    snprintf(key, sizeof key, "%s.grad", name);
    double error = grads_error(&fixture, key, &p.params, mf_plan_grads(m.plan), &found);
    ok(error < 1e-5 && found > 12, "%s: gradients of %d tensors, relative error %.1e", name, found, error);
    scorer_free(&m);

    static const struct {
        enum mf_objective objective;
        const char *record;
    } others[] = {{MF_CHAIN_SUM, "chain_sum"}, {MF_STEP_MEAN, "step_mean"}};
    for (int i = 0; i < 2; i++) {
        p.spec.objective = others[i].objective;
        m = scorer_of(&p, false);
        score(&m, B, obs, chain, NULL, &(struct mf_fetch){m.s.logprobs, logp, (size_t)mf_logprob_width(&p.spec)}, 1);
        compare(name, others[i].record, logp);
        scorer_free(&m);
    }
    mf_policy_release(&p);
    free(obs), free(chain);
}

/* ---- sampling ---- */

static struct {
    float obs[N * O], noise[N * D], eps[N * K * D], chains[N * (K + 1) * D], logp[N * C * A], values[N];
    float actions[N * C * A], normal[N * O], again[N * C * A], value_again[N];
    int32_t inds[N * K];
} x;

static void draw(const struct mf_policy_spec *s)
{
    struct mf_rng rng = mf_rng_at(1, MF_RNG_TEST, 0, 0, 0);
    mf_rng_normal(&rng, x.obs, N * O);
    mf_rng_normal(&rng, x.noise, N * D);
    mf_rng_normal(&rng, x.eps, N * K * D);
    for (int i = 0; i < N; i++) {
        int drawn = (int)mf_rng_below(&rng, s->noise_method == MF_FLOW_CPS ? K - 1 : K);
        for (int k = 0; k < K; k++)
            x.inds[i * K + k] = s->denoise == MF_SINGLE ? drawn : k;
    }
}

static struct mf_sample sample_of(int from)
{
    return (struct mf_sample){.obs = x.obs + from * O,
                              .noise = x.noise + from * D,
                              .eps = x.eps + from * K * D,
                              .inds = x.inds + from * K,
                              .chains = x.chains,
                              .logprobs = x.logp,
                              .values = x.values,
                              .actions = x.actions};
}

static void ratio_is_one(struct mf_policy_spec s)
{
    static const int sizes[] = {1, 3, 64, N};
    struct mf_err err;
    struct mf_policy p = policy_of(s);
    struct mf_sampler *m;
    struct mf_sample in = sample_of(0);
    struct scorer sc = scorer_of(&p, true);
    size_t E = (size_t)mf_logprob_width(&s), row = E * sizeof(float);
    int same = 1, values = 1, alone = 1;
    must(mf_sampler_new(&m, engine, &p, false, &err), &err);
    draw(&s);
    mf_policy_normalize(&p, N, x.obs, x.normal);
    struct mf_fetch fetch[] = {{sc.s.logprobs, x.again, E}, {sc.s.value, x.value_again, 1}};
    for (int i = 0; i < 4; i++) {
        size_t n = (size_t)sizes[i];
        must(mf_sampler_run(m, sizes[i], &in, &err), &err);
        score(&sc, n, x.normal, x.chains, x.inds, fetch, 2);
        same = same && !memcmp(x.logp, x.again, n * row);
        values = values && !memcmp(x.values, x.value_again, n * sizeof(float));
        must(mf_sampler_values(m, sizes[i], x.obs, x.value_again, &err), &err);
        values = values && !memcmp(x.values, x.value_again, n * sizeof(float));
    }
    /* Row 200 of 257 alone. */
    float chain[(K + 1) * D];
    memcpy(chain, x.chains + 200 * (K + 1) * D, sizeof chain);
    memcpy(x.again, x.logp + 200 * E, row);
    struct mf_sample one = sample_of(200);
    must(mf_sampler_run(m, 1, &one, &err), &err);
    alone = !memcmp(chain, x.chains, sizeof chain) && !memcmp(x.again, x.logp, row);
    int finite = isfinite(x.logp[0]) && x.logp[0] != 0;
    ok(same && values && alone && finite, "ratio 1: %s method %d noise%d objective %d learned %d%s%s%s%s",
       s.net.net->name, s.noise_method, s.convention, s.objective, s.learned_noise, same ? "" : " LOGPROBS",
       values ? "" : " VALUES", alone ? "" : " ALONE", finite ? "" : " DEGENERATE");
    mf_sampler_free(m);
    scorer_free(&sc);
    mf_policy_release(&p);
}

static void ratios(const char *net)
{
    for (int method = MF_FLOW_NOISE; method <= MF_FLOW_CPS; method++)
        for (int objective = MF_CHAIN_MEAN; objective <= MF_STEP_MEAN; objective++)
            for (int convention = MF_NOISE0; convention <= MF_NOISE1; convention++)
                for (int learned = 0; learned <= (method == MF_FLOW_NOISE); learned++) {
                    if (few_cases() && (method + objective + convention + learned) % 2)
                        continue;
                    struct mf_policy_spec s = small_spec(net);
                    s.noise_method = (enum mf_noise_method)method;
                    s.objective = (enum mf_objective)objective;
                    s.denoise = objective == MF_STEP ? MF_SINGLE : MF_JOINT;
                    s.convention = (enum mf_convention)convention;
                    s.learned_noise = learned;
                    s.mean_limit = convention ? 1 : 0, s.noise_clip = 1.5f, s.final_limit = convention ? .8f : 0;
                    ratio_is_one(s);
                }
}

static void single_step(bool learned)
{
    struct mf_err err;
    struct mf_policy_spec s = small_spec("reflow_mlp");
    s.objective = MF_STEP, s.denoise = MF_SINGLE, s.learned_noise = learned;
    struct mf_policy p = policy_of(s);
    struct mf_sampler *m;
    must(mf_sampler_new(&m, engine, &p, false, &err), &err);
    draw(&s);
    struct mf_sample in = sample_of(0);
    static float chains[N * (K + 1) * D];
    must(mf_sampler_run(m, N, &in, &err), &err);
    memcpy(chains, x.chains, sizeof chains);
    for (int i = 0; i < N * K; i++)
        for (int j = 0; j < D && i % K != x.inds[i]; j++)
            x.eps[i * D + j] = 1e6f;
    must(mf_sampler_run(m, N, &in, &err), &err);
    ok(!memcmp(chains, x.chains, sizeof chains), "single: only the drawn step reads its noise, learned %d", learned);
    for (int i = 0; i < N * K; i++)
        for (int j = 0; j < D && i % K == x.inds[i]; j++)
            x.eps[i * D + j] = 0;
    must(mf_sampler_run(m, N, &in, &err), &err);
    static float actions[N * C * A];
    memcpy(actions, x.actions, sizeof actions);
    struct mf_sampler *ode;
    must(mf_sampler_new(&ode, engine, &p, true, &err), &err);
    must(mf_sampler_run(ode, N, &(struct mf_sample){.obs = x.obs, .noise = x.noise, .actions = x.actions}, &err), &err);
    ok(!memcmp(actions, x.actions, sizeof actions), "without noise the chain is evaluation's ODE, learned %d", learned);
    x.inds[0] = K;
    ok(mf_sampler_run(m, N, &in, &err) == MF_EUSAGE, "%s", err.text);
    mf_sampler_free(m);
    mf_sampler_free(ode);
    mf_policy_release(&p);
}

static void clamps_and_slice(void)
{
    struct mf_err err;
    struct mf_policy_spec s = small_spec("shortcut_mlp");
    s.noise_clip = 1, s.final_limit = .5f, s.n_critic = 0;
    struct mf_policy p = policy_of(s);
    struct mf_sampler *m;
    must(mf_sampler_new(&m, engine, &p, false, &err), &err);
    draw(&s);
    struct mf_sample in = sample_of(0);
    must(mf_sampler_run(m, N, &in, &err), &err);
    float largest = 0, worst = 0;
    for (int i = 0; i < N; i++) {
        const float *last = x.chains + (i * (K + 1) + K) * D;
        for (int j = 0; j < D; j++)
            largest = fmaxf(largest, fabsf(last[j]));
        for (int j = 0; j < C * A; j++)
            worst = worse(worst, fabsf(x.actions[i * C * A + j] - (last[OFFSET * A + j] + .1f) / 1.3f));
    }
    ok(largest == .5f, "the last step stays within final_limit");
    ok(worst == 0, "actions are the executed slice, un-normalised");
    ok(mf_sampler_values(m, 1, x.obs, x.values, &err) == MF_EUSAGE, "%s", err.text);
    static float chains[N * (K + 1) * D];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N * K * D; i++)
            x.eps[i] = round ? 1 : 5 + (float)(i % 3);
        must(mf_sampler_run(m, N, &in, &err), &err);
        if (round == 0)
            memcpy(chains, x.chains, sizeof chains);
    }
    ok(!memcmp(chains, x.chains, sizeof chains), "noise beyond noise_clip is noise of noise_clip");
    mf_sampler_free(m);
    must(mf_sampler_new(&m, engine, &p, true, &err), &err);
    must(mf_sampler_run(m, N, &in, &err), &err);
    for (int i = largest = 0; i < N * C * A; i++)
        largest = fmaxf(largest, fabsf(x.actions[i] * 1.3f - .1f));
    ok(largest < .5f + 1e-6f, "so in evaluation");
    mf_sampler_free(m);
    mf_policy_release(&p);
}

int main(void)
{
    far_ranges();
    struct mf_err err;
    must(mf_engine_open(&engine, device_under_test(), 2, MF_FP32, &err), &err);
    fixture = fixture_load("tests/fixtures/flow.bin");
    coefficients();
    grids();

    struct mf_policy_spec s = small_spec("reflow_mlp");
    s.net.act = MF_ACT_RELU, s.learned_noise = true, s.mean_limit = 1;
    as_torch("reflow", s);
    s = small_spec("reflow_mlp");
    s.noise_method = MF_FLOW_SDE, s.convention = MF_NOISE1, s.net.n_cond = 2, s.net.cond[0] = 7, s.net.cond[1] = 5;
    as_torch("sde", s);
    s = small_spec("shortcut_mlp");
    s.learned_noise = true;
    as_torch("shortcut", s);

    ratios("reflow_mlp");
    ratios("shortcut_mlp");
    single_step(false);
    single_step(true);
    clamps_and_slice();
    free(fixture.bytes);
    mf_engine_close(engine);
    return done();
}
