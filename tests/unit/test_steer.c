/* Steering: the latent actor against the published one, whose numbers tests/reference/steer.py keeps. */
#include "device_under_test.h"
#include "base/rng.h"
#include "flow/ops.h"
#include "flow/sampler.h"
#include "flow/score.h"
#include "graph/plan.h"
#include "nn/mlp.h"
#include "policies.h"

enum { B = 3, F = 72, H = 5, A = 8, D = H * A, C = 2, E = 3 };

static struct mf_engine *engine;

static void is(const struct fixture *f, const char *name, const float *got, double tol)
{
    size_t n;
    float *want = fixture_find(f, name, &n);
    double worst = 0;
    for (size_t i = 0; want && i < n; i++)
        worst = worse(worst, fabs((double)got[i] - (double)want[i]));
    ok(want && worst < tol, "%s: within %.2g of the published", name, worst);
    free(want);
}

/* With the published weights: mean, std, the log-probabilities of a draw by element, and the entropy of some. */
static void published(void)
{
    struct fixture f = fixture_load("tests/fixtures/steer.bin");
    struct mf_err err;
    struct mf_params ps = {0};
    struct mf_graph *g = mf_graph_new(&ps);
    struct mf_val obs = mf_input(g, 1, F), z = mf_input(g, 1, D), coef = mf_shared(g, 1, 3);
    struct mf_latent l = mf_latent_actor(g, 3, (int[]){24, 16, 12}, D, obs);
    struct mf_val std = mf_latent_std(g, l.logstd, -5, 2), logp = mf_flow_logprob(g, z, l.mean, std, coef);
    struct mf_val row = mf_slice_cols(g, std, A, E); /* a row of actions */
    struct mf_val entropy =
        mf_flow_entropy(g, mf_concat(g, 2, (struct mf_val[]){mf_slice_cols(g, std, 0, E), row}), 1.0f / (C * E));
    must(mf_params_alloc(&ps, &err), &err);
    load_params(&f, "w", &ps, ps.value);
    struct mf_plan *plan;
    must(mf_plan_new(&plan, engine, g, &(struct mf_plan_opts){0}, &err), &err);
    mf_plan_set(plan, coef, (float[]){0, 0, 1});
    float *feature = fixture_find(&f, "feature", NULL), *draw = fixture_find(&f, "z", NULL), mean[B * D], s[B * D],
          lp[B * D], h[B];
    struct mf_feed feed[] = {{obs, feature, F, false}, {z, draw, D, false}};
    struct mf_fetch fetch[] = {{l.mean, mean, D}, {std, s, D}, {logp, lp, D}, {entropy, h, 1}};
    must(
        mf_plan_run(plan, &(struct mf_batch){.n = B, .feed = feed, .n_feeds = 2, .fetch = fetch, .n_fetches = 4}, &err),
        &err);
    is(&f, "mean", mean, 2e-6);
    is(&f, "std", s, 5e-6);
    is(&f, "logprobs_all", lp, 2e-5);
    is(&f, "entropy", h, 2e-6);
    float executed[B * C * E];
    for (int i = 0; i < B * C * E; i++)
        executed[i] = lp[i / (C * E) * D + i / E % C * A + i % E];
    is(&f, "logprobs", executed, 2e-5);
    mf_plan_free(plan);
    mf_graph_free(g);
    mf_params_release(&ps);
    free(feature);
    free(draw);
    free(f.bytes);
}

/* The rows of W, or its columns, are orthonormal times a. */
static double unlike_unit(const float *W, int rows, int cols, double a)
{
    const bool tall = rows > cols;
    const int n = tall ? cols : rows, len = tall ? rows : cols;
    double worst = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            double dot = 0;
            for (int k = 0; k < len; k++)
                dot += (double)W[tall ? k * cols + i : i * cols + k] * (double)W[tall ? k * cols + j : j * cols + k];
            worst = worse(worst, fabs(dot / (a * a) - (i == j)));
        }
    return worst;
}

static void initial(void)
{
    static const struct {
        const char *name;
        int rows, cols;
        double a;
    } want[] = {{"latent_actor.trunk.0.weight", 24, 72, 1},
                {"latent_actor.trunk.2.weight", 60, 24, 1},
                {"latent_actor.mean_head.weight", D, 60, .01}};
    struct mf_err err;
    struct mf_params ps = {0};
    struct mf_graph *g = mf_graph_new(&ps);
    mf_latent_actor(g, 2, (int[]){24, 60}, D, mf_input(g, 1, F));
    must(mf_params_alloc(&ps, &err), &err);
    mf_params_fresh(&ps, 3);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const struct mf_param *p = &ps.p[mf_param_find(&ps, want[i].name)];
        const double off = unlike_unit(ps.value + p->at, want[i].rows, want[i].cols, want[i].a);
        ok(p->rows == want[i].rows && p->cols == want[i].cols && off < 1e-5, "%s is orthogonal but for %.2g", p->name,
           off);
    }
    int nonzero = 0;
    for (int i = 0; i < ps.n; i++)
        for (int j = 0; strstr(ps.p[i].name, "logstd") && j < ps.p[i].rows * ps.p[i].cols; j++)
            nonzero += ps.value[ps.p[i].at + (size_t)j] != 0;
    ok(nonzero == 0, "sigma is 1 at first");
    mf_graph_free(g);
    mf_params_release(&ps);
}

/* ---- a steered policy ---- */

enum { N = 129, OBS = 5, NOISE = 6 };

static struct mf_policy_spec steered(const char *net, enum mf_steer_logprob of)
{
    struct mf_policy_spec s = small_spec(net);
    s.noise_method = MF_FLOW_ODE;
    s.steer = MF_STEER_PPO;
    s.steer_logprob = of;
    s.n_steer_hidden = 2;
    s.steer_hidden[0] = 12, s.steer_hidden[1] = 7;
    return s;
}

/* A policy whose latent actor is not at its start, so that mean and std differ from 0 and 1. */
static struct mf_policy policy_of(const struct mf_policy_spec *s)
{
    struct mf_err err;
    struct mf_policy p;
    must(mf_policy_init(&p, s, &err), &err);
    mf_policy_fresh(&p, 5);
    for (int i = 0; i < p.params.n; i++)
        for (int j = 0; p.params.p[i].group == MF_GROUP_STEER && j < p.params.p[i].rows * p.params.p[i].cols; j++)
            p.params.value[p.params.p[i].at + (size_t)j] += .2f * sinf((float)(7 * i + j));
    mf_params_touch(&p.params);
    return p;
}

struct rollout {
    float obs[N * OBS], eps[N * NOISE], z[N * NOISE], logprobs[N * NOISE], actions[N * 4];
};

static void sample(struct mf_policy *p, bool evaluation, const float *noise, struct rollout *r)
{
    struct mf_err err;
    struct mf_sampler *s;
    must(mf_sampler_new(&s, engine, p, evaluation, &err), &err);
    must(mf_sampler_run(s, N,
                        &(struct mf_sample){.obs = r->obs,
                                            .noise = noise,
                                            .samples = evaluation ? NULL : r->z,
                                            .logprobs = evaluation ? NULL : r->logprobs,
                                            .actions = r->actions},
                        &err),
         &err);
    mf_sampler_free(s);
}

static void draw_rollout(struct mf_policy *p, struct rollout *r)
{
    struct mf_rng rng = mf_rng_at(3, MF_RNG_TEST, 0, 0, 0);
    mf_rng_normal(&rng, r->obs, N * OBS);
    mf_rng_normal(&rng, r->eps, N * NOISE);
    sample(p, false, r->eps, r);
}

/* Scored from the stored noise, the log-probabilities have the same bits; only actor and critic get a gradient. */
static void scored(const char *net, enum mf_steer_logprob of)
{
    static struct rollout r;
    const struct mf_policy_spec s = steered(net, of);
    struct mf_policy p = policy_of(&s);
    struct mf_err err;
    struct mf_score score;
    const int W = mf_logprob_width(&p.spec);
    float got[N * NOISE];
    draw_rollout(&p, &r);
    struct mf_graph *g = mf_graph_new(&p.params);
    mf_score_build(g, &p, &score);
    mf_loss(g, W == 1 ? score.logprobs : mf_reduce(g, score.logprobs, MF_NONE, MF_REDUCE_CHUNK, 2, 2, 0, 1), 1);
    mf_loss(g, score.value, 1);
    mf_loss(g, score.entropy, 1);
    struct mf_plan *plan;
    must(mf_plan_new(&plan, engine, g, &(struct mf_plan_opts){.backward = true}, &err), &err);
    mf_score_set(plan, &score, &p);
    struct mf_feed feed[] = {{score.obs, r.obs, OBS, false}, {score.chain, r.z, NOISE, false}};
    struct mf_fetch fetch = {score.logprobs, got, (size_t)W};
    must(mf_plan_run(plan, &(struct mf_batch){.n = N, .feed = feed, .n_feeds = 2, .fetch = &fetch, .n_fetches = 1},
                     &err),
         &err);
    ok(W == (of == MF_STEER_ALL ? 1 : 4) && !memcmp(got, r.logprobs, N * (size_t)W * sizeof *got),
       "%s: the ratio is exactly 1 over %d log-probabilities", net, W);
    const float *grads = mf_plan_grads(plan);
    double of_group[MF_GROUPS] = {0};
    for (int i = 0; i < p.params.n; i++)
        for (int j = 0; j < p.params.p[i].rows * p.params.p[i].cols; j++)
            of_group[p.params.p[i].group] += fabs((double)grads[p.params.p[i].at + (size_t)j]);
    ok(of_group[MF_GROUP_STEER] > 0 && of_group[MF_GROUP_CRITIC] > 0 && of_group[MF_GROUP_POLICY] == 0 &&
           mf_params_count(&p.params, MF_GROUP_POLICY) > 0,
       "%s: actor and critic learn, the flow does not", net);
    mf_plan_free(plan);
    mf_graph_free(g);
    mf_policy_release(&p);
}

/* The flow from the noise that the actor drew gives the actions; evaluation takes the mean. */
static void flows(const char *net)
{
    static struct rollout r, plain, mean;
    struct mf_policy_spec s = steered(net, MF_STEER_EXECUTED);
    struct mf_policy p = policy_of(&s), q;
    struct mf_err err;
    draw_rollout(&p, &r);
    s.steer = MF_STEER_NONE;
    must(mf_policy_init(&q, &s, &err), &err);
    mf_policy_fresh(&q, 5); /* the same flow */
    memcpy(plain.obs, r.obs, sizeof r.obs);
    sample(&q, true, r.z, &plain);
    ok(!memcmp(plain.actions, r.actions, sizeof r.actions), "%s: the actions are the flow's from the drawn noise", net);
    float zero[N * NOISE] = {0};
    memcpy(mean.obs, r.obs, sizeof r.obs);
    sample(&p, false, zero, &mean);
    memcpy(plain.actions, mean.actions, sizeof mean.actions);
    memset(&mean.actions, 0, sizeof mean.actions);
    sample(&p, true, NULL, &mean);
    ok(!memcmp(plain.actions, mean.actions, sizeof mean.actions), "%s: evaluation takes the mean", net);
    mf_policy_release(&p);
    mf_policy_release(&q);
}

static void refused(void)
{
    struct mf_policy_spec s = steered("reflow_mlp", MF_STEER_ALL);
    s.objective = MF_FPO;
    s.fpo_draws = 4;
    refuses(s, "policy.objective=fpo scores the flow");
    s = steered("reflow_mlp", MF_STEER_ALL);
    s.noise_method = MF_FLOW_SDE;
    refuses(s, "not by flow_sde");
    s = steered("reflow_mlp", MF_STEER_ALL);
    s.n_steer_hidden = 0;
    refuses(s, "policy.steer_hidden=[]");
}

int main(void)
{
    struct mf_err err;
    must(mf_engine_open(&engine, device_under_test(), 1, MF_FP32, &err), &err);
    published();
    initial();
    for (int of = MF_STEER_EXECUTED; of <= MF_STEER_ALL; of++)
        scored("reflow_mlp", (enum mf_steer_logprob)of);
    scored("shortcut_mlp", MF_STEER_EXECUTED);
    flows("reflow_mlp");
    flows("shortcut_mlp");
    refused();
    mf_engine_close(engine);
    return done();
}
