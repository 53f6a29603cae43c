/* U-Nets: parameter counts, and scores, losses and gradients against PyTorch (tests/reference/unet.py). */
#include "clone_still.h"
#include "device_under_test.h"
#include "policies.h"
#include "flow/cloner.h"
#include "flow/grid.h"
#include "flow/score.h"

enum { B = 8, O = 5, D = 8, K = 4 };

static struct mf_engine *engine;
static struct fixture fixture;

/* The sizes of tests/reference/unet.py. */
static struct mf_policy_spec unet_spec(const char *net)
{
    struct mf_policy_spec s = small_spec(net);
    s.horizon = 4, s.n_action_steps = 3;
    s.net.n_down = 3, s.net.down[0] = 4, s.net.down[1] = 6, s.net.down[2] = 8;
    s.net.kernel = 3, s.net.n_groups = 2;
    return s;
}

static float *wanted(const char *name, const char *what)
{
    char key[64];
    snprintf(key, sizeof key, "%s.%s", name, what);
    float *v = fixture_find(&fixture, key, NULL);
    if (!v)
        printf("Bail out! no %s\n", key), exit(1);
    return v;
}

static void load(const char *name, const char *what, const struct mf_params *ps, float *value)
{
    char key[64];
    snprintf(key, sizeof key, "%s.%s", name, what);
    load_params(&fixture, key, ps, value);
}

static void as_torch(const char *name, const struct mf_params *ps, const float *grads, int least)
{
    char key[64];
    int found;
    snprintf(key, sizeof key, "%s.grad", name);
    double error = grads_error(&fixture, key, ps, grads, &found);
    ok(error < 1e-5 && found >= least, "%s: gradients of %d tensors, relative error %.1e", name, found, error);
}

/* A chain's log-probability, its value and entropy: K rows of one sample run as K chunks side by side. */
static void scores(void)
{
    enum { N = 3 };
    struct mf_err err;
    struct mf_policy p;
    struct mf_policy_spec s = unet_spec("shortcut_unet");
    struct mf_plan *plan;
    struct mf_score score;
    s.learned_noise = true;
    must(mf_policy_init(&p, &s, &err), &err);
    load("score", "param", &p.params, p.params.value);
    mf_policy_set_noise(&p, .1, .24);
    mf_params_touch(&p.params);
    struct mf_graph *g = mf_graph_new(&p.params);
    mf_score_build(g, &p, &score);
    mf_loss(g, score.logprobs, 1);
    mf_loss(g, score.value, 1);
    mf_loss(g, score.entropy, .5f);
    must(mf_plan_new(&plan, engine, g, &(struct mf_plan_opts){.backward = true}, &err), &err);
    mf_score_set(plan, &score, &p);
    float coef[3 * K], logp[N], elements[N * K * D];
    float *obs = wanted("score", "obs"), *chain = wanted("score", "chain"), *want = wanted("score", "chain_mean"),
          *each = wanted("score", "elements");
    for (int k = 0; k < K; k++)
        mf_flow_coef(&p.spec, k, p.noise_high, true, coef + 3 * k);
    struct mf_feed feed[] = {
        {score.obs, obs, O, false}, {score.chain, chain, (K + 1) * D, false}, {score.coef, coef, 0, false}};
    struct mf_fetch fetch[] = {{score.logprobs, logp, 1}, {score.elements, elements, K * D}};
    must(
        mf_plan_run(plan, &(struct mf_batch){.n = N, .feed = feed, .n_feeds = 3, .fetch = fetch, .n_fetches = 2}, &err),
        &err);
    double far = 0, most = 0;
    for (int i = 0; i < N * K * D; i++) {
        far = worse(far, fabs((double)elements[i] - (double)each[i]));
        most = fmax(most, fabs((double)each[i]));
    }
    ok(far < 1e-5 * most, "elements of a chain, relative error %.1e", far / most);
    for (int i = 0; i < N; i++)
        near(logp[i], want[i], 1e-5, "log-probability of a chain");
    as_torch("score", &p.params, mf_plan_grads(plan), 100);
    mf_plan_free(plan);
    mf_graph_free(g);
    mf_policy_release(&p);
    free(obs), free(chain), free(want), free(each);
}

static void lesson(const char *name, const char *net, enum mf_clone_loss kind)
{
    struct mf_err err;
    struct mf_policy p;
    struct mf_policy_spec s = unet_spec(net);
    struct mf_cloner *m;
    must(mf_policy_init(&p, &s, &err), &err);
    load(name, "param", &p.params, p.params.value);
    mf_params_touch(&p.params);
    float *teacher = calloc(p.params.size, sizeof *teacher);
    const float *grads;
    load(name, "teacher.param", &p.params, teacher);
    float *obs = wanted(name, "obs"), *actions = wanted(name, "actions"), *want = wanted(name, "loss");
    must(mf_cloner_new(&m, engine, &p, &(struct mf_clone_opts){.loss = kind, .seed = 11}, &err), &err);
    double loss;
    must(clone_still(engine, m, &p, &(struct mf_clone_batch){3, B, NULL, obs, actions, NULL}, teacher, &loss, &grads,
                     &err),
         &err);
    near(loss, *want, 1e-5, name);
    as_torch(name, &p.params, grads, 90);
    mf_cloner_free(m);
    mf_policy_release(&p);
    free(teacher), free(obs), free(actions), free(want);
}

/* Diffusion policy's defaults on its Push-T states (2 actions, 2 x 5 observations), and the small size of
 * the published stages (7 actions, 256 features; 5.0 M), as tests/reference/unet.py --count has them. */
static void counts(void)
{
    static const struct {
        const char *net;
        int A, O, width, time_dim;
        size_t count;
    } rows[] = {
        {"unet", 2, 10, 256, 256, 65353218},
        {"shortcut_unet", 2, 10, 256, 256, 65550850},
        {"unet", 7, 256, 64, 64, 5007943},
        {"shortcut_unet", 7, 256, 64, 64, 5020487},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mf_err err;
        struct mf_policy p;
        struct mf_policy_spec s = unet_spec(rows[i].net);
        s.horizon = 16, s.action_dim = rows[i].A, s.net.time_dim = rows[i].time_dim;
        s.obs.dim = s.obs.key[0].dim[0] = rows[i].O;
        s.net.kernel = 5, s.net.n_groups = 8;
        for (int k = 0; k < 3; k++)
            s.net.down[k] = rows[i].width << k;
        must(mf_policy_outline(&p, &s, &err), &err);
        ok(mf_params_count(&p.params, MF_GROUP_POLICY) == rows[i].count, "%s of [%d, ..]: %zu parameters", rows[i].net,
           rows[i].width, rows[i].count);
        mf_policy_release(&p);
    }
}

static void refused(void)
{
    struct mf_policy_spec s = unet_spec("unet");
    s.horizon = 6;
    refuses(s, "policy.horizon=6 is not divisible by 4");
    s = unet_spec("unet");
    s.net.n_groups = 4;
    refuses(s, "does not divide 6");
    s = unet_spec("unet");
    s.net.kernel = 4;
    refuses(s, "policy.kernel_size=4");
    s = unet_spec("unet");
    s.net.n_down = 0;
    refuses(s, "at least one level");
    s = unet_spec("shortcut_unet");
    s.net.time_dim = 7;
    refuses(s, "policy.time_dim=7");
}

int main(void)
{
    struct mf_err err;
    must(mf_engine_open(&engine, device_under_test(), 2, MF_FP32, &err), &err);
    fixture = fixture_load("tests/fixtures/unet.bin");
    counts();
    scores();
    lesson("flow", "unet", MF_CLONE_FLOW);
    lesson("shortcut", "shortcut_unet", MF_CLONE_SHORTCUT);
    refused();
    free(fixture.bytes);
    mf_engine_close(engine);
    return done();
}
