/* Critics of action chunks against reference values (tests/reference/offline.py), and their initial values. */
#include "base/rng.h"
#include "device_under_test.h"
#include "policies.h"
#include "graph/plan.h"
#include "op/ops.h"
#include "rl/qnet.h"

enum { B = 10, O = 6, CA = 6, MOST = 3 };

static struct mf_engine *engine;
static struct fixture fixture;

struct lab {
    struct mf_params ps;
    struct mf_graph *g;
    struct mf_plan *plan;
    struct mf_val action, obs, y, weight, q, loss;
    struct mf_qnet net;
};

static void open_lab(struct lab *l, const struct mf_qnet *net)
{
    struct mf_err err;
    *l = (struct lab){.net = *net};
    l->g = mf_graph_new(&l->ps);
    l->action = mf_input(l->g, 1, CA);
    l->obs = mf_input(l->g, 1, O);
    l->y = mf_input(l->g, 1, 1);
    l->weight = mf_input(l->g, 1, 1);
    l->q = mf_qnet(l->g, net, l->action, l->obs);
    l->loss = mf_qnet_loss(l->g, net, l->q, l->y, l->weight);
    must(mf_params_alloc(&l->ps, &err), &err);
    must(mf_plan_new(&l->plan, engine, l->g, &(struct mf_plan_opts){.backward = true}, &err), &err);
}

static void close_lab(struct lab *l)
{
    mf_plan_free(l->plan);
    mf_graph_free(l->g);
    mf_params_release(&l->ps);
}

/* Critics with the weights kind.param or kind.target, of `actions` in `obs`, against kind.want. */
static void forward(struct lab *l, const char *kind, const char *weights, float *actions, float *obs, const char *want)
{
    struct mf_err err;
    float q[B * MOST], y[B] = {0}, *expected = fixture_record(&fixture, kind, want);
    char key[64];
    snprintf(key, sizeof key, "%s%s", kind, weights);
    load_params(&fixture, key, &l->ps, l->ps.value);
    mf_params_touch(&l->ps);
    const struct mf_feed feed[] = {
        {l->action, actions, CA, false}, {l->obs, obs, O, false}, {l->y, y, 1, false}, {l->weight, y, 1, false}};
    const struct mf_fetch fetch = {l->q, q, (size_t)l->net.n};
    must(mf_plan_run(l->plan, &(struct mf_batch){.n = B, .feed = feed, .n_feeds = 4, .fetch = &fetch, .n_fetches = 1},
                     &err),
         &err);
    double error = largest_difference(q, expected, (size_t)(B * l->net.n));
    ok(error < 2e-5, "%s%s: values of %d critics, error %.1e", kind, weights, l->net.n, error);
    free(expected);
}

static void as_reference(const char *kind, int n)
{
    struct mf_err err;
    struct lab l;
    open_lab(&l, &(struct mf_qnet){"critic", n, 2, {20, 16}, MF_ACT_MISH, false});
    float *obs = fixture_record(&fixture, "", "obs"), *next = fixture_record(&fixture, "", "next_obs"),
          *actions = fixture_record(&fixture, "", "actions"), *after = fixture_record(&fixture, kind, ".after"),
          *y = fixture_record(&fixture, kind, ".y"), *want = fixture_record(&fixture, kind, ".loss"), weight[B],
          loss[B];
    for (int i = 0; i < B; i++)
        weight[i] = 1.0f / B;
    forward(&l, kind, ".target", after, next, ".next_q");
    forward(&l, kind, ".param", actions, obs, ".all_q");
    const struct mf_feed feed[] = {
        {l.action, actions, CA, false}, {l.obs, obs, O, false}, {l.y, y, 1, false}, {l.weight, weight, 1, false}};
    const struct mf_fetch fetch = {l.loss, loss, 1};
    must(mf_plan_run(l.plan, &(struct mf_batch){.n = B, .feed = feed, .n_feeds = 4, .fetch = &fetch, .n_fetches = 1},
                     &err),
         &err);
    double sum = 0;
    for (int i = 0; i < B; i++)
        sum += (double)loss[i] * (n == 2 ? 2 : 1);
    near(sum, (double)*want, 1e-5, "the loss of the critics");
    int found;
    char key[64];
    snprintf(key, sizeof key, "%s.grad", kind);
    double error = grads_error(&fixture, key, &l.ps, mf_plan_grads(l.plan), &found);
    ok(error < 1e-4 && found == l.ps.n, "%s: gradients of %d tensors, relative error %.1e", kind, found, error);
    close_lab(&l);
    free(obs), free(next), free(actions), free(after), free(y), free(want);
}

/* W W^T of a wide matrix, or W^T W of a tall one, is gain^2 I. */
static double off_orthogonal(const float *w, int rows, int cols, double square)
{
    int n = rows < cols ? rows : cols, wide = rows < cols ? cols : rows;
    double worst = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double dot = i == j ? -square : 0;
            for (int k = 0; k < wide; k++)
                dot += rows < cols ? (double)w[i * cols + k] * (double)w[j * cols + k]
                                   : (double)w[k * cols + i] * (double)w[k * cols + j];
            worst = worse(worst, fabs(dot));
        }
    return worst;
}

static void fresh(void)
{
    struct lab a, b;
    const struct mf_qnet net = {"critic", 2, 2, {20, 8}, MF_ACT_TANH, true};
    double worst = 0, others = 0;
    open_lab(&a, &net);
    open_lab(&b, &net);
    mf_params_fresh(&a.ps, 5);
    mf_params_fresh(&b.ps, 5);
    ok(!memcmp(a.ps.value, b.ps.value, a.ps.size * sizeof(float)), "a seed gives the same critics");
    mf_params_fresh(&b.ps, 6);
    ok(memcmp(a.ps.value, b.ps.value, a.ps.size * sizeof(float)) != 0, "another seed gives others");
    for (int i = 0; i < a.ps.n; i++) {
        const struct mf_param *p = &a.ps.p[i];
        const float *v = a.ps.value + p->at;
        const bool scale = p->rank == 1 && strstr(p->name, "weight");
        if (p->rank == 2)
            worst = worse(worst, off_orthogonal(v, p->rows, p->cols, p->rows == 1 ? 1e-4 : 2));
        for (int j = 0; p->rank == 1 && j < p->cols; j++)
            others = worse(others, fabs((double)v[j] - scale));
    }
    ok(worst < 1e-6, "matrices are orthogonal, error %.1e", worst);
    ok(others == 0, "biases are 0 and norms the identity");
    ok(memcmp(a.ps.value + a.ps.p[0].at, a.ps.value + a.ps.p[a.ps.n / 2].at, CA * sizeof(float)) != 0,
       "the critics differ");
    close_lab(&a);
    close_lab(&b);
}

static void pairs(void)
{
    int count[4] = {0}, bad = 0;
    for (uint32_t i = 0; i < 400; i++) {
        int pair[2];
        struct mf_rng rng = mf_rng_at(1, MF_RNG_TEST, 0, 0, i);
        mf_qnet_pair(4, &rng, pair);
        bad += pair[0] == pair[1] || pair[0] < 0 || pair[1] < 0 || pair[0] > 3 || pair[1] > 3;
        count[pair[0] & 3]++, count[pair[1] & 3]++;
    }
    for (int i = 0; i < 4; i++)
        bad += abs(count[i] - 200) > 40;
    ok(bad == 0, "a pair has two critics, each as often: %d %d %d %d of 400", count[0], count[1], count[2], count[3]);
    const float q[] = {3, -1, 2};
    ok(mf_qnet_min(q, 3, NULL) == -1 && mf_qnet_min(q, 2, (int[]){0, 2}) == 2,
       "the smaller value of a pair, or of all");
}

int main(void)
{
    struct mf_err err;
    must(mf_engine_open(&engine, device_under_test(), 2, MF_FP32, &err), &err);
    fixture = fixture_load("tests/fixtures/offline.bin");
    as_reference("double", 2);
    as_reference("ensemble", 3);
    fresh();
    pairs();
    free(fixture.bytes);
    mf_engine_close(engine);
    return done();
}
