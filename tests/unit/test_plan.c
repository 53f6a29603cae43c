/* Plans: lanes and threads, keys head by head, tiles, feeds and fetches, detached values, shared
 * losses, devices that are not there. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "device_under_test.h"
#include "graph/plan.h"
#include "op/ops.h"
#include "tap.h"

enum { N = 300, O = 7, D = 20, H = 48 };

/* A two-layer network with a residual, a shared row and a squared loss. */
struct net {
    struct mf_params ps;
    struct mf_graph *g;
    struct mf_val x, target, weight, shift, y;
};

static void build(struct net *n)
{
    struct mf_err err;
    *n = (struct net){0};
    n->g = mf_graph_new(&n->ps);
    int W0 = mf_param_add(&n->ps, "0.weight", H, O, 2, MF_GROUP_POLICY, MF_INIT_NORMAL, 0.3f);
    int b0 = mf_param_add(&n->ps, "0.bias", 1, H, 1, MF_GROUP_POLICY, MF_INIT_NORMAL, 0.3f);
    int W1 = mf_param_add(&n->ps, "1.weight", H, H, 2, MF_GROUP_POLICY, MF_INIT_NORMAL, 0.1f);
    int W2 = mf_param_add(&n->ps, "2.weight", D, H, 2, MF_GROUP_CRITIC, MF_INIT_NORMAL, 0.1f);
    int W3 = mf_param_add(&n->ps, "3.weight", H, H, 2, MF_GROUP_POLICY, MF_INIT_NORMAL, 0.1f);
    mf_params_alloc(&n->ps, &err);
    mf_params_fresh(&n->ps, 5);
    n->x = mf_input(n->g, 1, O);
    n->target = mf_input(n->g, 1, D);
    n->weight = mf_input(n->g, 1, 1);
    n->shift = mf_shared(n->g, 1, H);
    struct mf_val learned = mf_linear(n->g, n->shift, W3, 0, -1, MF_NONE, MF_NONE, MF_ACT_TANH); /* shared, trained */
    struct mf_val h = mf_linear(n->g, n->x, W0, 0, b0, learned, MF_NONE, MF_ACT_MISH);
    h = mf_linear(n->g, h, W1, 0, -1, h, MF_NONE, MF_ACT_RELU);
    n->y = mf_linear(n->g, h, W2, 0, -1, MF_NONE, MF_NONE, MF_ACT_NONE);
    mf_loss(n->g, mf_mse(n->g, n->y, n->target, n->weight), 1.0f);
}

static void drop(struct net *n)
{
    mf_graph_free(n->g);
    mf_params_release(&n->ps);
}

static float data[3][N * D]; /* x, target, weight */
static const float shift[H] = {0.5f, -0.5f};

static int unlike; /* second runs of a plan whose gradients were not those of the first */

/* Gradients and outputs of the n samples by index, on so many threads. */
static int run(struct net *m, int threads, int tile, int lanes, size_t n, const uint32_t *index, float *y, float *grads)
{
    struct mf_engine *e;
    struct mf_plan *p;
    struct mf_err err;
    struct mf_feed feeds[] = {
        {m->x, data[0], O, false}, {m->target, data[1], D, false}, {m->weight, data[2], 1, false}};
    struct mf_fetch fetch = {m->y, y, D};
    struct mf_batch batch = {.n = n, .index = index, .feed = feeds, .n_feeds = 3, .fetch = &fetch, .n_fetches = 1};
    struct mf_plan_opts opts = {.tile = tile, .lanes = lanes, .backward = grads != NULL};
    int rc = mf_engine_open(&e, device_under_test(), threads, MF_FP32, &err) || mf_plan_new(&p, e, m->g, &opts, &err);
    if (rc == 0) {
        mf_plan_set(p, m->shift, shift);
        rc = mf_plan_run(p, &batch, &err);
        if (grads)
            memcpy(grads, mf_plan_grads(p), sizeof(float) * m->ps.size);
        rc = rc || mf_plan_run(p, &batch, &err);
        unlike += grads && memcmp(grads, mf_plan_grads(p), sizeof(float) * m->ps.size);
        mf_plan_free(p);
        mf_engine_close(e);
    }
    return rc;
}

static void threads_and_lanes(void)
{
    struct net m;
    build(&m);
    size_t bytes = sizeof(float) * m.ps.size;
    float *g1 = malloc(bytes), *g = malloc(bytes), *y1 = malloc(sizeof(float) * N * D),
          *y = malloc(sizeof(float) * N * D);
    run(&m, 1, 16, 8, N, NULL, y1, g1);
    for (int threads = 2; threads <= 4; threads++) {
        run(&m, threads, 16, 8, N, NULL, y, g);
        ok(!memcmp(g, g1, bytes) && !memcmp(y, y1, sizeof(float) * N * D), "the same bits on %d threads", threads);
    }
    for (int tile = 1; tile <= 64; tile += 21) {
        run(&m, 2, tile, 3, N, NULL, y, g);
        double worst = 0.0;
        for (size_t i = 0; i < m.ps.size; i++)
            worst = worse(worst, fabs((double)g[i] - (double)g1[i]));
        ok(worst < 2e-5 && !memcmp(y, y1, sizeof(float) * N * D),
           "tiles of %d: the same outputs, gradients within rounding", tile);
    }
    run(&m, 3, 0, 0, N, NULL, y, NULL);
    ok(!memcmp(y, y1, sizeof(float) * N * D), "inference gives the bits of training");
    for (size_t n = 1, bad = 0; n <= 41; n += 4) {
        uint32_t index[41];
        for (size_t i = 0; i < n; i++)
            index[i] = (uint32_t)(N - 1 - 7 * i);
        run(&m, 2, 0, 0, n, index, y, NULL);
        for (size_t i = 0; i < n; i++)
            bad += memcmp(y + i * D, y1 + index[i] * D, sizeof(float) * D) != 0;
        ok(bad == 0, "%zu rows by index", n);
    }
    run(&m, 2, 16, 8, 0, NULL, y, g);
    size_t nonzero = 0;
    for (size_t i = 0; i < m.ps.size; i++)
        nonzero += g[i] != 0.0f;
    ok(nonzero == 0, "no sample, no gradient");
    ok(unlike == 0, "a plan that ran before gives the same gradients");
    free(g1), free(g), free(y1), free(y);
    drop(&m);
}

enum { KEYS = 21, HEADS = 2, SEEN = 6 };

/* Attention over keys that a norm made, of `seen` samples; whole: something else reads the keys, too. */
static void normed(const char *device, bool whole, const float *x, float *y, float *grads, struct mf_err *refusal)
{
    static float fetched[SEEN * KEYS * H];
    struct mf_params ps = {0};
    struct mf_engine *e;
    struct mf_plan *p;
    struct mf_err err;
    struct mf_graph *g = mf_graph_new(&ps);
    int W = mf_param_add(&ps, "W", 2 * H, H, 2, MF_GROUP_POLICY, MF_INIT_NORMAL, 0.2f);
    int unit = mf_param_add(&ps, "unit", 1, H / HEADS, 1, MF_GROUP_POLICY, MF_INIT_NORMAL, 1.0f);
    struct mf_val in = mf_input(g, KEYS, H), target = mf_input(g, KEYS, H), weight = mf_input(g, 1, 1);
    struct mf_val kv = mf_linear(g, in, W, 0, -1, MF_NONE, MF_NONE, MF_ACT_NONE);
    struct mf_val keys = mf_norm(g, kv, 0, H, HEADS, MF_NORM_LAYER, unit, -1, 1e-5f);
    if (whole)
        mf_add(g, keys, keys);
    struct mf_val out = mf_attention(
        g, in, keys, kv, MF_NONE,
        &(struct mf_attend){.heads = HEADS, .blocks = 1, .dim = H, .out = H, .at = {0, 0, H}, .scale = 0.3f});
    mf_loss(g, mf_mse(g, mf_reshape(g, out, 1, KEYS * H), mf_reshape(g, target, 1, KEYS * H), weight), 1.0f);
    mf_params_alloc(&ps, &err);
    mf_params_fresh(&ps, 3);
    const struct mf_feed feeds[] = {{in, x, KEYS * H, false},
                                    {target, x + 7, KEYS * H, false},
                                    {weight, (float[SEEN]){1, 1, 0, 1, 1, 1}, 1, false}};
    struct mf_fetch fetch = {out, y, KEYS * H}, of_keys = {mf_reshape(g, keys, 1, KEYS * H), fetched, KEYS * H};
    if (mf_engine_open(&e, device, 2, MF_FP32, &err) ||
        mf_plan_new(&p, e, g, &(struct mf_plan_opts){.tile = 4, .lanes = 2, .backward = true}, &err) ||
        mf_plan_run(p, &(struct mf_batch){.n = SEEN, .feed = feeds, .n_feeds = 3, .fetch = &fetch, .n_fetches = 1},
                    &err))
        abort();
    memcpy(grads, mf_plan_grads(p), sizeof *grads * (2 * H * H + H / HEADS));
    *refusal = (struct mf_err){0};
    mf_plan_run(p, &(struct mf_batch){.n = SEEN, .feed = feeds, .n_feeds = 3, .fetch = &of_keys, .n_fetches = 1},
                refusal);
    mf_plan_free(p);
    mf_engine_close(e);
    mf_graph_free(g);
    mf_params_release(&ps);
}

static void heads(void)
{
    static float x[SEEN * KEYS * H + 7], y[2][SEEN * KEYS * H], grads[2][2 * H * H + H / HEADS];
    struct mf_rng rng = mf_rng_at(4, MF_RNG_TEST, 0, 0, 0);
    struct mf_err refusal;
    mf_rng_normal(&rng, x, sizeof x / sizeof *x);
    for (int i = 0; i < 2; i++) {
        const char *device = i ? device_under_test() : "ref";
        normed(device, true, x, y[0], grads[0], &refusal);
        ok(refusal.code == 0, "%s: keys that others read, too, can be fetched", device);
        normed(device, false, x, y[1], grads[1], &refusal);
        ok(refusal.code == MF_EUSAGE, "%s: else they cannot: %s", device, refusal.text);
        ok(!memcmp(y[0], y[1], sizeof y[0]) && !memcmp(grads[0], grads[1], sizeof grads[0]),
           "%s: keys head by head give the bits of whole ones", device);
    }
}

static void refusals(void)
{
    struct net m;
    build(&m);
    struct mf_engine *e;
    struct mf_plan *p;
    struct mf_err err = {0};
    struct mf_feed feed = {m.x, data[0], O, false};
    ok(mf_engine_open(&e, "tpu", 1, MF_FP32, &err) == MF_EUSAGE, "an unknown device: %s", err.text);
    ok(mf_engine_open(&e, "ref", 1, MF_BF16, &err) == MF_EUSAGE, "a precision that ref has not: %s", err.text);
    ok(mf_engine_open(&e, "cpu", -1, MF_FP32, &err) == MF_EUSAGE, "less than no threads: %s", err.text);
    mf_engine_open(&e, "ref", 2, MF_FP32, &err);
    mf_plan_new(&p, e, m.g, &(struct mf_plan_opts){0}, &err);
    ok(mf_plan_run(p, &(struct mf_batch){.n = 1, .feed = &feed, .n_feeds = 1}, &err) == MF_EUSAGE,
       "a shared input that was not set: %s", err.text);
    mf_plan_set(p, m.shift, shift);
    ok(mf_plan_run(p, &(struct mf_batch){.n = 1, .feed = &feed, .n_feeds = 1}, &err) == MF_EUSAGE,
       "an input that is not fed: %s", err.text);
    mf_plan_free(p);
    mf_engine_close(e);
    drop(&m);
}

/* d/dw of w, of w + detach(w), and of a shared loss that every sample uses. */
static void detach_and_shared(void)
{
    struct mf_engine *e;
    struct mf_plan *p;
    struct mf_err err;
    struct mf_params ps = {0};
    struct mf_graph *g = mf_graph_new(&ps);
    int w = mf_param_add(&ps, "w", 1, 1, 2, MF_GROUP_POLICY, MF_INIT_CONST, 3.0f);
    int u = mf_param_add(&ps, "u", 1, 1, 2, MF_GROUP_POLICY, MF_INIT_CONST, 4.0f);
    mf_params_alloc(&ps, &err);
    mf_params_fresh(&ps, 0);
    struct mf_val x = mf_input(g, 1, 1), c = mf_shared(g, 1, 1);
    struct mf_val y = mf_linear(g, x, w, 0, -1, MF_NONE, MF_NONE, MF_ACT_NONE);
    mf_loss(g, mf_add(g, y, mf_detach(g, y)), 1.0f);
    mf_loss(g, mf_linear(g, c, u, 0, -1, MF_NONE, MF_NONE, MF_ACT_NONE), 0.5f);
    mf_engine_open(&e, device_under_test(), 2, MF_FP32, &err);
    mf_plan_new(&p, e, g, &(struct mf_plan_opts){.tile = 2, .backward = true}, &err);
    mf_plan_set(p, c, (float[]){2.0f});
    float in[5] = {1, 2, 3, 4, 5}, out[5];
    struct mf_feed feed = {x, in, 1, false};
    struct mf_fetch fetch = {y, out, 1};
    mf_plan_run(p, &(struct mf_batch){.n = 5, .feed = &feed, .n_feeds = 1, .fetch = &fetch, .n_fetches = 1}, &err);
    near((double)mf_plan_grads(p)[ps.p[w].at], 15.0, 0.0, "no gradient passes a detached value");
    near((double)mf_plan_grads(p)[ps.p[u].at], 5.0, 0.0, "a shared loss is every sample's");
    near((double)out[4], 15.0, 0.0, "the value that was fetched");
    mf_plan_free(p);
    mf_engine_close(e);
    mf_graph_free(g);
    mf_params_release(&ps);
}

static void count(void *arg, int i)
{
    ((int *)arg)[i]++;
}

int main(void)
{
    struct mf_rng rng = mf_rng_at(2, MF_RNG_TEST, 0, 0, 0);
    for (int i = 0; i < 3; i++)
        mf_rng_normal(&rng, data[i], N * D);
    threads_and_lanes();
    heads();
    refusals();
    detach_and_shared();

    struct mf_engine *e;
    struct mf_err err;
    int seen[1000] = {0}, wrong = 0;
    mf_engine_open(&e, "cpu", 3, MF_FP32, &err);
    for (int round = 0; round < 50; round++)
        mf_engine_each(e, 1000, count, seen);
    for (int i = 0; i < 1000; i++)
        wrong += seen[i] != 50;
    ok(wrong == 0, "each of a thousand is done once a round");
    mf_engine_close(e);
    return done();
}
