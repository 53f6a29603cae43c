/* The loss of reflow consistency and its gradients against PyTorch (tests/reference/flow.py). */
#include "flow/reflow.h"
#include "device_under_test.h"
#include "policies.h"

enum { B = 3, O = 5, D = 6 };

static struct mf_engine *engine;
static struct fixture fixture;

static float *of(const char *name, const char *what)
{
    char key[64];
    snprintf(key, sizeof key, "%s.%s", name, what);
    return fixture_find(&fixture, key, NULL);
}

static void as_torch(const char *name, struct mf_policy_spec s)
{
    struct mf_err err;
    struct mf_policy p;
    must(mf_policy_init(&p, &s, &err), &err);
    char key[64];
    snprintf(key, sizeof key, "%s.param", name);
    load_params(&fixture, key, &p.params, p.params.value);
    mf_params_touch(&p.params);
    float *obs = of(name, "obs"), *ends = of(name, "ends"), *t = of(name, "t"), *weight = of(name, "weight"),
          *want = of(name, "loss"), x[B * D], target[B * D], time[B], loss[B];
    for (int i = 0; i < B; i++)
        mf_reflow_point(&p.spec, ends + 2 * i * D, ends + (2 * i + 1) * D, t[i], x + i * D, target + i * D, &time[i]);
    x[D] = target[D] = NAN; /* of the sample of weight 0 */

    struct mf_graph *g = mf_graph_new(&p.params);
    struct mf_plan *plan;
    struct mf_reflow r;
    struct mf_val o = mf_input(g, 1, O);
    struct mf_share encoded = mf_net_features(g, &p.spec.net, o, false);
    p.spec.net.net->encode(g, &p.spec.net, &encoded);
    mf_reflow_build(g, &p.spec, &encoded, &r);
    must(mf_plan_new(&plan, engine, g, &(struct mf_plan_opts){.backward = true}, &err), &err);
    mf_reflow_set(plan, &r, &p);
    const struct mf_feed feed[] = {{o, obs, O, false},
                                   {r.x, x, D, true},
                                   {r.target, target, D, true},
                                   {r.time, time, 1, true},
                                   {r.weight, weight, 1, true}};
    must(mf_plan_run(
             plan,
             &(struct mf_batch){
                 .n = B, .feed = feed, .n_feeds = 5, .fetch = &(struct mf_fetch){r.loss, loss, 1}, .n_fetches = 1},
             &err),
         &err);
    double worst = 0;
    int found;
    for (int i = 0; i < B; i++)
        worst = worse(worst, fabs((double)loss[i] - (double)want[i]));
    ok(worst < 1e-5 && loss[1] == 0 && loss[0] > .01f, "%s: losses differ by %.1e", name, worst);
    snprintf(key, sizeof key, "%s.grad", name);
    double error = grads_error(&fixture, key, &p.params, mf_plan_grads(plan), &found);
    ok(error < 1e-5 && found > 8, "%s: gradients of %d tensors, relative error %.1e", name, found, error);
    mf_plan_free(plan);
    mf_graph_free(g);
    mf_policy_release(&p);
    free(obs), free(ends), free(t), free(weight), free(want);
}

int main(void)
{
    struct mf_err err;
    must(mf_engine_open(&engine, device_under_test(), 2, MF_FP32, &err), &err);
    fixture = fixture_load("tests/fixtures/reflow.bin");
    struct mf_policy_spec s = small_spec("reflow_mlp");
    s.net.act = MF_ACT_RELU;
    as_torch("reflow", s);
    s = small_spec("reflow_mlp");
    s.net.n_cond = 2, s.net.cond[0] = 7, s.net.cond[1] = 5;
    s.convention = MF_NOISE1;
    as_torch("sde", s);
    as_torch("shortcut", small_spec("shortcut_mlp"));
    free(fixture.bytes);
    mf_engine_close(engine);
    return done();
}
