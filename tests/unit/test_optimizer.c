/* The optimiser of cloning and PPO: clipping, averages, gradients that are not finite, schedules. */
#include <math.h>
#include <string.h>

#include "flow/optimizer.h"
#include "device_under_test.h"
#include "given_grads.h"
#include "tap.h"

enum { N = 16 };
static struct mf_err err;
static struct mf_engine *engine;
static const struct mf_optimizer_opts opts = {.average = true, .patience = 2, .rate = "clone.learning_rate"};

static void params_of(struct mf_params *ps)
{
    *ps = (struct mf_params){.n = 0};
    mf_param_add(ps, "a", 1, N, 1, MF_GROUP_POLICY, MF_INIT_UNIFORM, 1);
    mf_param_add(ps, "b", 1, N, 1, MF_GROUP_CRITIC, MF_INIT_UNIFORM, 1);
}

static int learn(struct mf_optimizer *o, struct given *l, const float *grads, const struct mf_step *s,
                 struct mf_verdict *v)
{
    int rc = mf_optimizer_learn(o, l->plan, given_run(l, grads), s, v, &err);
    return rc ? rc : mf_optimizer_settle(o, &err);
}

static bool same(const struct mf_params *a, const struct mf_params *b)
{
    return !memcmp(a->value, b->value, a->size * sizeof *a->value);
}

/* A step scales the gradient of each group so that its norm, or that of all, is at most max_norm. */
static void clipping(bool separate)
{
    struct mf_params ps;
    struct mf_optimizer o;
    struct mf_verdict v;
    struct given l;
    const struct mf_step s = {.lr = {.1, .2}, .max_norm = 1, .separate = separate, .ema_decay = .9};
    float grads[2 * N], want[N];
    for (int i = 0; i < 2 * N; i++)
        grads[i] = i < N ? .5f : .75f; /* norms 2 and 3 */
    params_of(&ps);
    given_open(&l, engine, &ps, 2);
    mf_optimizer_init(&o, engine, &ps, &opts, &err);
    for (int i = 0; i < N; i++)
        want[i] = .9f * ps.value[i];
    ok(learn(&o, &l, grads, &s, &v) == 0 && fabs(v.norm[MF_GROUP_POLICY] - 2) < 1e-9 &&
           fabs(v.norm[MF_GROUP_CRITIC] - 3) < 1e-9 && fabs(v.total - sqrt(13)) < 1e-9 && o.minibatches == 1,
       "norms of the groups, and of all");
    const double policy = separate ? v.norm[MF_GROUP_POLICY] : v.total,
                 critic = separate ? v.norm[MF_GROUP_CRITIC] : v.total;
    near((double)o.adam.m[3], .1 * .5 / policy, 1e-7, "the policy's first moment, of the clipped gradient");
    near((double)o.adam.m[N + 3], .1 * .75 / critic, 1e-7, "the critic's");
    for (int i = 0; i < N; i++)
        near(o.ema[i], want[i] + (1 - .9f) * ps.value[i], 1e-7, "the policy's average");
    ok(o.ema[N] != ps.value[N], "the critic has none");
    mf_optimizer_average_anew(&o);
    ok(!memcmp(o.ema, ps.value, ps.size * sizeof *o.ema), "begun anew, the average is the weights");
    mf_optimizer_release(&o);
    given_close(&l);
    mf_params_release(&ps);
}

static void not_finite(void)
{
    struct mf_params ps, before;
    struct mf_optimizer o;
    struct mf_verdict v;
    struct given l, same_start;
    const struct mf_step s = {.lr = {.1, .2}};
    float bad[2 * N] = {[3] = NAN}, good[2 * N] = {1};
    params_of(&ps);
    params_of(&before);
    given_open(&l, engine, &ps, 2);
    given_open(&same_start, engine, &before, 2);
    mf_optimizer_init(&o, engine, &ps, &opts, &err);
    ok(learn(&o, &l, bad, &s, &v) == 0 && !v.finite && same(&ps, &before) && o.minibatches == 1 &&
           o.adam.step[MF_GROUP_POLICY] == 0,
       "a gradient that is not finite changes nothing, and is counted");
    ok(learn(&o, &l, good, &s, &v) == 0 && v.finite && !same(&ps, &before), "the next one is taken");
    ok(learn(&o, &l, bad, &s, &v) == 0 && learn(&o, &l, bad, &s, &v) == MF_EMATH &&
           strstr(err.text, "minibatch 3, 2 in a row: lower clone.learning_rate"),
       "%s", err.text);
    mf_optimizer_release(&o);
    given_close(&l);
    given_close(&same_start);
    mf_params_release(&ps);
    mf_params_release(&before);
}

/* A step behind a vetoed one is not taken, unless it begins an update. */
static void vetoes(void)
{
    struct mf_params ps = {.n = 0};
    struct mf_optimizer o;
    struct mf_verdict v;
    struct mf_plan *plan;
    const int w = mf_param_add(&ps, "w", 1, 1, 2, MF_GROUP_POLICY, MF_INIT_CONST, 1);
    struct mf_graph *g = mf_graph_new(&ps);
    const struct mf_val x = mf_input(g, 1, 1), y = mf_linear(g, x, w, 0, -1, MF_NONE, MF_NONE, MF_ACT_NONE);
    mf_loss(g, y, 1);
    mf_params_alloc(&ps, &err);
    mf_params_fresh(&ps, 1);
    mf_plan_new(&plan, engine, g, &(struct mf_plan_opts){.backward = true}, &err);
    mf_optimizer_init(&o, engine, &ps, &opts, &err);
    const float ones[] = {1, 1};
    const struct mf_feed feed = {.input = x, .base = ones, .stride = 1};
    const struct mf_batch batch = {.n = 2, .feed = &feed, .n_feeds = 1};
    const struct {
        double most;
        bool first, vetoed;
        int steps;
    } step[] = {
        {3, false, false, 1}, {0, true, true, 1}, {3, false, true, 1}, {3, true, false, 2}, {3, false, false, 3}};
    for (size_t i = 0; i < sizeof step / sizeof *step; i++) {
        const struct mf_step s = {.lr = {.1}, .veto = y, .most = step[i].most, .first = step[i].first};
        const float before = *ps.value;
        int rc = mf_optimizer_start(&o, plan, &batch, &s, &v, &err);
        rc = rc ? rc : mf_optimizer_finish(&o, plan, &v, &err);
        rc = rc ? rc : mf_optimizer_settle(&o, &err);
        ok(rc == 0 && v.vetoed == step[i].vetoed && v.stepped != v.vetoed && (before == *ps.value) == v.vetoed &&
               o.adam.step[MF_GROUP_POLICY] == step[i].steps && o.minibatches == step[i].steps,
           "step %zu, at most %g: %s", i, step[i].most, v.vetoed ? "vetoed" : "taken");
        near(v.veto, 2 * (double)before, 1e-6, "the sum over the samples");
    }
    mf_optimizer_release(&o);
    mf_plan_free(plan);
    mf_graph_free(g);
    mf_params_release(&ps);
}

static void memory(void)
{
    struct mf_params ps = {.n = 0};
    struct mf_optimizer o;
    struct mf_memory m = {.beside = NULL};
    mf_param_add(&ps, "a", 1 << 10, 1 << 20, 2, MF_GROUP_POLICY, MF_INIT_UNIFORM, 1);
    ok(mf_optimizer_init(&o, engine, &ps, &opts, &err) == 0 && !o.ema && !o.adam.m, "an outline takes no memory");
    mf_optimizer_memory(&o, &m);
    near(mf_memory_sum(&m), 3.0 * 4 * (1 << 30), 1, "two moments and the average");
    mf_optimizer_release(&o);
    mf_params_release(&ps);
}

int main(void)
{
    mf_engine_open(&engine, device_under_test(), 1, MF_FP32, &err);
    clipping(false);
    clipping(true);
    not_finite();
    vetoes();
    memory();
    near(mf_lr_factor(MF_LR_CONSTANT, 3, 4), 1, 0, "constant");
    near(mf_lr_factor(MF_LR_LINEAR, 1, 4), .75, 1e-12, "linear");
    near(mf_lr_factor(MF_LR_COSINE, 1, 3), .75, 1e-12, "cosine");
    near(mf_lr_factor(MF_LR_COSINE, 3, 3), 0, 1e-12, "cosine's end");
    near(mf_ema_decay(0, 1, .75, .9999), 0, 1e-12, "no decay at first");
    near(mf_ema_decay(15, 1, .75, .9999), 1 - 1 / 8.0, 1e-12, "1 - 16^-.75");
    near(mf_ema_decay(1000000000, 1, .75, .9999), .9999, 1e-12, "at most max");
    mf_engine_close(engine);
    return done();
}
