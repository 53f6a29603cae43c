/* Workers of the cpu device that divide operations: one large sample, few samples, and those without tiles that help.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "graph/plan.h"
#include "op/ops.h"
#include "tap.h"

enum { D = 20 };
static const float scales[2][4] = {{0.3f, -1.0f, 0.7f, 0.2f}, {0.5f, -0.5f}}, weights[3] = {0.4f, 1.0f, -0.6f};

enum { TOKENS = 2000, WIDE = 256, QUERIES = 16 };

/* Work enough for workers to share one sample: large products (by rows), small ones (by columns), norms and heads. */
static struct mf_val attending(struct mf_graph *g, struct mf_val x, struct mf_val scale)
{
    struct mf_params *ps = mf_graph_params(g);
    int in = mf_param_add(ps, "in", WIDE, WIDE, 2, MF_GROUP_POLICY, MF_INIT_NORMAL, 0.06f);
    int kv = mf_param_add(ps, "kv", 2 * WIDE, WIDE, 2, MF_GROUP_POLICY, MF_INIT_NORMAL, 0.06f);
    int q = mf_param_add(ps, "q", WIDE, WIDE, 2, MF_GROUP_POLICY, MF_INIT_NORMAL, 0.06f);
    int out = mf_param_add(ps, "out", D, WIDE, 2, MF_GROUP_POLICY, MF_INIT_NORMAL, 0.06f);
    int m = mf_param_add(ps, "m", 2 * WIDE, 4, 2, MF_GROUP_POLICY, MF_INIT_NORMAL, 0.3f);
    x = mf_linear(g, x, in, 0, -1, MF_NONE, MF_NONE, MF_ACT_RELU);
    struct mf_val known = mf_linear(g, x, kv, 0, -1, MF_NONE, MF_NONE, MF_ACT_NONE);
    struct mf_val asks = mf_linear(g, mf_slice_rows(g, x, 0, QUERIES), q, 0, -1, MF_NONE, MF_NONE, MF_ACT_GELU);
    asks = mf_modulate(g, mf_norm(g, asks, 0, WIDE, 8, MF_NORM_RMS, -1, -1, 1e-5f),
                       mf_linear(g, scale, m, 0, -1, MF_NONE, MF_NONE, MF_ACT_NONE), 0);
    struct mf_val y = mf_attention(
        g, asks, known, known, MF_NONE,
        &(struct mf_attend){.heads = 8, .blocks = 1, .dim = WIDE, .out = WIDE, .at = {0, 0, WIDE}, .scale = 0.2f});
    return mf_linear(g, y, out, 0, -1, MF_NONE, MF_NONE, MF_ACT_NONE);
}

struct attended {
    struct mf_params ps;
    struct mf_engine *e;
    struct mf_graph *g;
    struct mf_plan *p;
    struct mf_val in, scale, out, target, weight;
};

static void attend(struct attended *a, int threads, const struct mf_plan_opts *opts)
{
    struct mf_err err;
    *a = (struct attended){0};
    a->g = mf_graph_new(&a->ps);
    a->in = mf_input(a->g, TOKENS, WIDE);
    a->scale = mf_shared(a->g, 1, 4);
    a->out = attending(a->g, a->in, a->scale);
    if (opts->backward) {
        a->target = mf_input(a->g, QUERIES, D);
        a->weight = mf_input(a->g, 1, 1);
        mf_loss(a->g, mf_mse(a->g, a->out, a->target, a->weight), 1.0f);
    }
    mf_params_alloc(&a->ps, &err);
    mf_params_fresh(&a->ps, 9);
    if (mf_engine_open(&a->e, threads ? "cpu" : "ref", threads ? threads : 1, MF_FP32, &err) ||
        mf_plan_new(&a->p, a->e, a->g, opts, &err))
        abort();
}

static void leave(struct attended *a)
{
    mf_plan_free(a->p);
    mf_engine_close(a->e);
    mf_graph_free(a->g);
    mf_params_release(&a->ps);
}

/* The results of one sample on so many threads: with the shared scale, with another, with changed weights. */
static void alone(int threads, const float *x, float y[3][QUERIES * D])
{
    struct attended a;
    struct mf_err err;
    attend(&a, threads, &(struct mf_plan_opts){0});
    struct mf_feed feed = {a.in, x, TOKENS * WIDE, false};
    for (int i = 0; i < 3; i++) {
        struct mf_fetch fetch = {a.out, y[i], QUERIES * D};
        mf_plan_set(a.p, a.scale, scales[i > 0]);
        if (i == 2) {
            a.ps.value[a.ps.p[mf_param_find(&a.ps, "m")].at] += 1.0f;
            mf_params_touch(&a.ps);
        }
        if (mf_plan_run(a.p, &(struct mf_batch){.n = 1, .feed = &feed, .n_feeds = 1, .fetch = &fetch, .n_fetches = 1},
                        &err))
            abort();
    }
    leave(&a);
}

/* The gradients of three samples in two lanes: from the third thread on, and when the last tile is left, some help. */
static float *helped(int threads, const float *x, size_t *bytes)
{
    struct attended a;
    struct mf_err err;
    attend(&a, threads, &(struct mf_plan_opts){.tile = 1, .lanes = 2, .backward = true});
    struct mf_feed feeds[] = {
        {a.in, x, TOKENS * WIDE / 2, false}, {a.target, x, QUERIES * D, false}, {a.weight, weights, 1, false}};
    mf_plan_set(a.p, a.scale, scales[1]);
    if (mf_plan_run(a.p, &(struct mf_batch){.n = 3, .feed = feeds, .n_feeds = 3}, &err))
        abort();
    *bytes = sizeof(float) * a.ps.size;
    float *grads = memcpy(malloc(*bytes), mf_plan_grads(a.p), *bytes);
    leave(&a);
    return grads;
}

static void together(void)
{
    static float x[2 * TOKENS * WIDE], y[6][3][QUERIES * D];
    struct mf_rng rng = mf_rng_at(3, MF_RNG_TEST, 0, 0, 0);
    mf_rng_normal(&rng, x, 2 * TOKENS * WIDE);
    for (int threads = 0; threads <= 5; threads++)
        alone(threads, x, y[threads]);
    for (int i = 0; i < 3; i++) {
        float worst = 0.0f;
        for (int j = 0; j < QUERIES * D; j++)
            worst = worse(worst, fabsf(y[0][i][j] - y[1][i][j]));
        ok(worst < 1e-4f, "one sample on one thread as by plain loops");
        for (int threads = 2; threads <= 5; threads++)
            ok(!memcmp(y[threads][i], y[1][i], sizeof y[1][i]), "the same bits by %d threads together", threads);
        ok(i == 0 || memcmp(y[1][i], y[1][i - 1], sizeof y[1][i]), "shared values follow their inputs");
    }
    size_t bytes;
    float *plain = helped(0, x, &bytes), *one = helped(1, x, &bytes), worst = 0.0f, most = 0.0f;
    for (size_t i = 0; i < bytes / sizeof *one; i++) {
        worst = worse(worst, fabsf(plain[i] - one[i]));
        most = fmaxf(most, fabsf(plain[i]));
    }
    ok(worst < 1e-5f * most, "gradients on one thread as by plain loops: %g of %g", (double)worst, (double)most);
    for (int threads = 2; threads <= 5; threads++) {
        float *g = helped(threads, x, &bytes);
        ok(!memcmp(g, one, bytes), "the same bits where %d threads help each other", threads);
        free(g);
    }
    free(plain), free(one);
}

/* y (n, COLS) of n samples through two wide layers: a few for each of two threads, which divide the layers' columns. */
enum { COLS = 1024, SAMPLES = 5 };

static void wide(int threads, const float *x, float *y)
{
    struct mf_engine *e;
    struct mf_plan *p;
    struct mf_err err;
    struct mf_params ps = {0};
    struct mf_graph *g = mf_graph_new(&ps);
    int W0 = mf_param_add(&ps, "0.weight", COLS, COLS, 2, MF_GROUP_POLICY, MF_INIT_NORMAL, 0.1f);
    int W1 = mf_param_add(&ps, "1.weight", COLS, COLS, 2, MF_GROUP_POLICY, MF_INIT_NORMAL, 0.1f);
    struct mf_val in = mf_input(g, 1, COLS);
    struct mf_val h = mf_linear(g, in, W0, 0, -1, MF_NONE, MF_NONE, MF_ACT_RELU),
                  out = mf_linear(g, h, W1, 0, -1, h, MF_NONE, MF_ACT_TANH);
    struct mf_feed feed = {in, x, COLS, false};
    struct mf_fetch fetch = {out, y, COLS};
    mf_params_alloc(&ps, &err);
    mf_params_fresh(&ps, 3);
    if (mf_engine_open(&e, "cpu", threads, MF_FP32, &err) || mf_plan_new(&p, e, g, &(struct mf_plan_opts){0}, &err) ||
        mf_plan_run(p, &(struct mf_batch){.n = SAMPLES, .feed = &feed, .n_feeds = 1, .fetch = &fetch, .n_fetches = 1},
                    &err))
        abort();
    mf_plan_free(p);
    mf_engine_close(e);
    mf_graph_free(g);
    mf_params_release(&ps);
}

static void few_samples(void)
{
    static float x[SAMPLES * COLS], y[2][SAMPLES * COLS];
    struct mf_rng rng = mf_rng_at(4, MF_RNG_TEST, 0, 0, 0);
    mf_rng_normal(&rng, x, SAMPLES * COLS);
    wide(1, x, y[0]);
    wide(2, x, y[1]);
    ok(!memcmp(y[0], y[1], sizeof y[0]), "few samples have the same bits where two threads divide operations");
}

int main(void)
{
    together();
    few_samples();
    return done();
}
