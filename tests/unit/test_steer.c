/* Steering: the latent actor against the published one, whose numbers tests/reference/steer.py keeps. */
#include "device_under_test.h"
#include "flow/ops.h"
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

int main(void)
{
    struct mf_err err;
    must(mf_engine_open(&engine, device_under_test(), 1, MF_FP32, &err), &err);
    published();
    initial();
    mf_engine_close(engine);
    return done();
}
