/* Cloning losses and gradients against PyTorch (tests/reference/flow.py), given the same draws. */
#include "base/rng.h"
#include "clone_still.h"
#include "device_under_test.h"
#include "policies.h"
#include "flow/cloner.h"

static struct mf_engine *engine;
static struct fixture fixture;

static const struct {
    const char *name, *net;
    enum mf_time_sampling sampling;
    enum mf_clone_loss loss;
    enum mf_convention convention;
} cases[] = {
    {"flow0", "reflow_mlp", MF_TIME_UNIFORM, MF_CLONE_FLOW, MF_NOISE0},
    {"flow1", "reflow_mlp", MF_TIME_LOGIT_NORMAL, MF_CLONE_FLOW, MF_NOISE1},
    {"shortcut0", "shortcut_mlp", MF_TIME_AUTO, MF_CLONE_SHORTCUT, MF_NOISE0},
    {"shortcut1", "shortcut_mlp", MF_TIME_UNIFORM, MF_CLONE_SHORTCUT, MF_NOISE1},
    {"consistency0", "shortcut_mlp", MF_TIME_AUTO, MF_CLONE_CONSISTENCY, MF_NOISE0},
    {"consistency1", "shortcut_mlp", MF_TIME_BETA, MF_CLONE_CONSISTENCY, MF_NOISE1},
    {"cfm0", "reflow_mlp", MF_TIME_AUTO, MF_CLONE_CFM, MF_NOISE0},
    {"cfm1", "shortcut_mlp", MF_TIME_UNIFORM, MF_CLONE_CFM, MF_NOISE1}, /* of 7 samples: 5 flow, 2 with a teacher */
};

static struct mf_policy_spec spec_of(size_t c)
{
    struct mf_policy_spec s = small_spec(cases[c].net);
    s.convention = cases[c].convention;
    if (cases[c].loss == MF_CLONE_CFM)
        s.target_time = MF_TARGET_ZERO;
    return s;
}

static void as_torch(size_t c)
{
    enum { MOST = 8, O = 5, D = 6 };
    struct mf_err err;
    struct mf_policy p;
    struct mf_policy_spec s = spec_of(c);
    size_t B = 0;
    must(mf_policy_init(&p, &s, &err), &err);
    char key[64];
    snprintf(key, sizeof key, "%s.param", cases[c].name);
    load_params(&fixture, key, &p.params, p.params.value);
    mf_params_touch(&p.params);
    float *teacher = calloc(p.params.size, sizeof *teacher);
    snprintf(key, sizeof key, "%s.teacher.param", cases[c].name);
    load_params(&fixture, key, &p.params, teacher);
    snprintf(key, sizeof key, "%s.obs", cases[c].name);
    float *obs = fixture_find(&fixture, key, &B), *mixed_obs = calloc(MOST * O, sizeof *obs);
    B /= O;
    snprintf(key, sizeof key, "%s.actions", cases[c].name);
    float *actions = fixture_find(&fixture, key, NULL), *mixed = calloc(MOST * D, sizeof *actions);
    snprintf(key, sizeof key, "%s.loss", cases[c].name);
    float *want = fixture_find(&fixture, key, NULL);

    struct mf_cloner *m;
    must(mf_cloner_new(&m, engine, &p, &(struct mf_clone_opts){cases[c].loss, cases[c].sampling, .1f, 11, MF_LOSS_ALL},
                       &err),
         &err);
    double loss, again;
    const float *grads;
    int found;
    must(clone_still(engine, m, &p, &(struct mf_clone_batch){3, B, NULL, obs, actions, NULL}, teacher, &loss, &grads,
                     &err),
         &err);
    snprintf(key, sizeof key, "%s: loss", cases[c].name);
    near(loss, *want, 1e-5, key);
    snprintf(key, sizeof key, "%s.grad", cases[c].name);
    double error = grads_error(&fixture, key, &p.params, grads, &found);
    ok(error < 1e-5 && found > 8, "%s: gradients of %d tensors, relative error %.1e", cases[c].name, found, error);

    /* The same batch through an index. */
    uint32_t index[MOST];
    for (uint32_t i = 0; i < B; i++) {
        index[i] = i * 3 % (uint32_t)B;
        memcpy(mixed_obs + index[i] * O, obs + i * O, O * sizeof *obs);
        memcpy(mixed + index[i] * D, actions + i * D, D * sizeof *actions);
    }
    must(clone_still(engine, m, &p, &(struct mf_clone_batch){3, B, index, mixed_obs, mixed, NULL}, teacher, &again,
                     &grads, &err),
         &err);
    ok(loss == again, "%s: rows by index are the rows", cases[c].name);
    must(clone_still(engine, m, &p, &(struct mf_clone_batch){4, B, NULL, obs, actions, NULL}, teacher, &again, &grads,
                     &err),
         &err);
    ok(loss != again, "%s: another step draws anew", cases[c].name);
    if (cases[c].loss != MF_CLONE_FLOW) {
        must(clone_still(engine, m, &p, &(struct mf_clone_batch){3, B, NULL, obs, actions, NULL}, NULL, &again, &grads,
                         &err),
             &err);
        ok(loss != again, "%s: without EMA the network teaches itself", cases[c].name);
    }
    obs[2] = NAN;
    ok(clone_still(engine, m, &p, &(struct mf_clone_batch){3, B, NULL, obs, actions, NULL}, teacher, &again, &grads,
                   &err) == MF_EMATH,
       "%s", err.text);
    mf_cloner_free(m);
    mf_policy_release(&p);
    free(teacher), free(obs), free(actions), free(mixed_obs), free(mixed), free(want);
}

enum { STEPS = 3 };

/* Some steps, one after another, or each batch read and drawn while the one before is under way. */
static void train(size_t c, bool ahead, struct mf_policy *p, double loss[STEPS])
{
    enum { B = 8, O = 5, D = 6 };
    struct mf_err err;
    struct mf_policy_spec s = spec_of(c);
    struct mf_cloner *m;
    struct mf_optimizer o;
    struct mf_verdict v;
    float obs[B * O], actions[B * D];
    must(mf_policy_init(p, &s, &err), &err);
    mf_policy_fresh(p, 3);
    must(mf_cloner_new(&m, engine, p, &(struct mf_clone_opts){cases[c].loss, cases[c].sampling, .1f, 11, MF_LOSS_ALL},
                       &err),
         &err);
    must(mf_optimizer_init(&o, engine, &p->params, &(struct mf_optimizer_opts){.average = true, .patience = 1}, &err),
         &err);
    const struct mf_step step = {.lr = {[MF_GROUP_POLICY] = .01, [MF_GROUP_ENCODER] = .01}, .ema_decay = .5};
    for (int i = 0; i <= STEPS; i++) {
        const struct mf_clone_batch batch = {i, B, NULL, obs, actions, NULL};
        struct mf_rng rng = mf_rng_at(5, MF_RNG_TEST, 0, 0, (uint32_t)i);
        mf_rng_normal(&rng, obs, B * O);
        mf_rng_normal(&rng, actions, B * D);
        if (ahead) {
            must(mf_cloner_draw(m, &batch, &err), &err);
            if (i > 0)
                must(mf_cloner_finish(m, &o, &loss[i - 1], &v, &err), &err);
            if (i < STEPS)
                must(mf_cloner_start(m, &batch, &o, &step, &v, &err), &err);
        } else if (i < STEPS) {
            must(mf_cloner_run(m, &batch, &o, &step, &loss[i], &v, &err), &err);
        }
    }
    must(mf_optimizer_settle(&o, &err), &err);
    mf_cloner_free(m);
    mf_optimizer_release(&o);
}

static void ahead(size_t c)
{
    struct mf_policy a, b;
    double one[STEPS], two[STEPS];
    train(c, false, &a, one);
    train(c, true, &b, two);
    ok(!memcmp(one, two, sizeof one) && !memcmp(a.params.value, b.params.value, a.params.size * sizeof(float)),
       "%s: the next batch changes nothing of the one under way", cases[c].name);
    mf_policy_release(&a);
    mf_policy_release(&b);
}

static void refused(void)
{
    struct mf_err err;
    struct mf_policy p;
    struct mf_policy_spec s = small_spec("reflow_mlp");
    struct mf_cloner *m;
    must(mf_policy_init(&p, &s, &err), &err);
    ok(mf_cloner_new(&m, engine, &p, &(struct mf_clone_opts){.loss = MF_CLONE_SHORTCUT}, &err) == MF_EUSAGE, "%s",
       err.text);
    ok(mf_cloner_new(&m, engine, &p, &(struct mf_clone_opts){.loss = MF_CLONE_CONSISTENCY}, &err) == MF_EUSAGE, "%s",
       err.text);
    mf_policy_release(&p);
    s = small_spec("shortcut_mlp");
    must(mf_policy_init(&p, &s, &err), &err);
    ok(mf_cloner_new(&m, engine, &p, &(struct mf_clone_opts){.loss = MF_CLONE_CFM}, &err) == MF_EUSAGE, "%s", err.text);
    mf_policy_release(&p);
}

int main(void)
{
    struct mf_err err;
    must(mf_engine_open(&engine, device_under_test(), 2, MF_FP32, &err), &err);
    fixture = fixture_load("tests/fixtures/clone.bin");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        as_torch(c), ahead(c);
    refused();
    free(fixture.bytes);
    mf_engine_close(engine);
    return done();
}
