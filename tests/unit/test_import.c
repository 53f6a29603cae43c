/* Policies that PyTorch made (tests/reference/torch_policies.py) act the same once they are imported. */
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "flow/checkpoint.h"
#include "flow/sampler.h"
#include "run/safetensors.h"
#include "import/import.h"
#include "policies.h"

enum { N = 7, O = 5, MOST = 8, A = 2 }; /* MOST numbers of a chunk */

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static char folder[] = "/tmp/mf-test-XXXXXX";
static struct mf_engine *engine;
static struct fixture fixture;

static float *wanted(const char *name, const char *what)
{
    char key[64];
    size_t n;
    snprintf(key, sizeof key, "%s.%s", name, what);
    float *v = fixture_find(&fixture, key, &n);
    if (!v)
        printf("Bail out! no %s\n", key), exit(1);
    return v;
}

static double worst(const float *got, const float *want, size_t n)
{
    double w = 0;
    for (size_t i = 0; i < n; i++)
        w = fmax(w, fabs((double)got[i] - (double)want[i]) / (1 + fabs((double)want[i])));
    return w;
}

/* Import `file` under the words; obs NULL: no environment. */
static int import(const char *file, const char *to, const char *const *words, const struct mf_layout *obs, int dim,
                  const char *normalizer, int *left, struct mf_err *err)
{
    struct mf_names keys;
    static const struct mf_bind table[] = {{"policy.obs_keys", 0}, {0}};
    struct mf_conf *conf = mf_conf_new();
    struct mf_import_world w = {.conf = conf, .keys = &keys, .obs = obs, .A = dim};
    struct mf_import im;
    struct mf_policy_spec spec;
    struct mf_policy p = {0};
    struct mf_sources from = {.word = words};
    while (words[from.n_words])
        from.n_words++;
    must(mf_conf_load(conf, &from, err), err);
    must(mf_conf_bind(conf, table, &keys, err), err);
    int rc = mf_import_open(&im, file, err);
    if (!rc) {
        if (!(rc = mf_import_spec(&im, &spec, &w, err)) && !(rc = mf_policy_outline(&p, &spec, err)) &&
            !(rc = mf_import_normalizer(&im, &p, normalizer, err)))
            rc = mf_import_save(&im, &p, to, err);
        *left = im.n_left;
        mf_policy_release(&p);
        mf_import_close(&im);
    }
    mf_conf_free(conf);
    return rc;
}

static void acts(const char *name, const char *path, enum mf_weights which, const char *kind)
{
    struct mf_loaded *l;
    struct mf_policy p;
    struct mf_sampler *s;
    struct mf_err err = {0};
    float actions[N * MOST], values[N];
    float *obs = wanted(name, "obs"), *noise = wanted(name, "noise"), *want = wanted(name, "actions");
    must(mf_checkpoint_open(&l, path, &err), &err);
    ok(!strcmp(mf_loaded_kind(l), kind), "%s is of the kind %s", name, kind);
    must(mf_policy_init(&p, mf_loaded_spec(l), &err), &err);
    must(mf_loaded_policy(l, &p, which, &err), &err);
    must(mf_sampler_new(&s, engine, &p, true, &err), &err);
    struct mf_sample x = {.obs = obs, .noise = noise, .actions = actions};
    must(mf_sampler_run(s, N, &x, &err), &err);
    double far = worst(actions, want, N * (size_t)p.spec.net.D);
    ok(far < 1e-5, "%s samples PyTorch's actions, within %.1e", name, far);
    if (p.spec.n_critic && strcmp(name, "dppo")) {
        float *v = wanted(name, "values");
        struct mf_sampler *rollout;
        must(mf_sampler_new(&rollout, engine, &p, false, &err), &err);
        must(mf_sampler_values(rollout, N, obs, values, &err), &err);
        mf_sampler_free(rollout);
        far = worst(values, v, N);
        ok(far < 1e-5, "%s gives PyTorch's values, within %.1e", name, far);
        free(v);
    }
    if (p.spec.learned_noise) {
        const double high = mf_layout_pictures(&p.spec.obs) ? .14 : .16;
        ok(fabs(p.noise_low - .08) < 1e-6 && fabs(p.noise_high - high) < 1e-6, "%s brings sigma's bounds", name);
    }
    mf_sampler_free(s);
    mf_policy_release(&p);
    mf_checkpoint_close(l);
    free(obs), free(noise), free(want);
}

/* ManiFlow's policy of tests/reference/maniflow.py as a plain state_dict. */
static void write_maniflow(const struct mf_safetensors *f, const char *path)
{
    struct mf_array *t = calloc((size_t)f->n, sizeof *t);
    struct mf_err err;
    int n = 0;
    for (int i = 0; i < f->n; i++) {
        const char *name = f->tensors[i].name;
        char key[64], what[16];
        t[n] = f->tensors[i];
        if (!strncmp(name, "weight/", 7))
            snprintf(t[n++].name, sizeof t->name, "%s", name + 7);
        else if (sscanf(name, "normalizer/%63[^/]/%15s", key, what) == 2)
            snprintf(t[n++].name, sizeof t->name, "normalizer.params_dict.%s.%s", key, what);
    }
    must(mf_torch_write(path, t, n, &err), &err);
    free(t);
}

static void maniflow(const char *to)
{
    enum { B = 4, TO = 2, POINTS = 32 * 6, STATE = 9, ACTIONS = 8 * 10 };
    struct mf_safetensors f;
    struct mf_loaded *l;
    struct mf_policy p;
    struct mf_sampler *s;
    struct mf_err err = {0};
    char pt[80];
    int left = 0;
    float obs[B * TO * (POINTS + STATE)], actions[B * ACTIONS];
    must(mf_safetensors_open(&f, "tests/fixtures/maniflow.safetensors", &err), &err);
    snprintf(pt, sizeof pt, "%s.pt", to);
    write_maniflow(&f, pt);
    ok(import(pt, to, WORDS("policy.n_action_steps=8"), NULL, 1, NULL, &left, &err) == MF_EUSAGE &&
           strstr(err.text, "policy.n_obs_steps"),
       "a bare state_dict of ManiFlow asks for its observation steps");
    ok(import(pt, to, WORDS("policy.n_action_steps=8", "policy.n_obs_steps=2"), NULL, 1, NULL, &left, &err) ==
               MF_EUSAGE &&
           strstr(err.text, "at which end of time the noise lies: give policy.convention=noise0"),
       "and at which end of time the noise lies");
    ok(import(pt, to, WORDS("policy.n_action_steps=8", "policy.n_obs_steps=2", "policy.convention=noise0"), NULL, 1,
              NULL, &left, &err) == 0,
       "with them it is imported, its normaliser too %s", err.text);
    must(mf_checkpoint_open(&l, to, &err), &err);
    must(mf_policy_init(&p, mf_loaded_spec(l), &err), &err);
    must(mf_loaded_policy(l, &p, MF_WEIGHTS_AUTO, &err), &err);
    must(mf_sampler_new(&s, engine, &p, true, &err), &err);
    const struct mf_array *cloud = mf_safetensors_find(&f, "obs_point_cloud"),
                          *state = mf_safetensors_find(&f, "obs_agent_pos"), *noise = mf_safetensors_find(&f, "noise"),
                          *want = mf_safetensors_find(&f, "action");
    for (int i = 0; i < B * TO; i++) {
        memcpy(obs + i * (POINTS + STATE), (const float *)cloud->data + i * POINTS, POINTS * sizeof *obs);
        memcpy(obs + i * (POINTS + STATE) + POINTS, (const float *)state->data + i * STATE, STATE * sizeof *obs);
    }
    struct mf_sample x = {.obs = obs, .noise = noise->data, .actions = actions};
    must(mf_sampler_run(s, B, &x, &err), &err);
    double far = worst(actions, want->data, B * ACTIONS);
    ok(want->count == B * ACTIONS && far < 1e-5, "it samples ManiFlow's actions, within %.1e", far);
    mf_sampler_free(s);
    mf_policy_release(&p);
    mf_checkpoint_close(l);
    mf_safetensors_close(&f);
    unlink(pt);
}

/* tests/reference/unet.py's file: as the published network acts, and as one does that heeds its step size. */
static void unet(const char *to)
{
    static const char file[] = "tests/fixtures/unet.pt";
    struct mf_err err = {0};
    int left = 0;
    free(fixture.bytes);
    fixture = fixture_load("tests/fixtures/unet.bin");
    ok(import(file, to, WORDS("policy.n_groups=2", "policy.horizon=4"), NULL, 1, "identity", &left, &err) ==
               MF_EUSAGE &&
           strstr(err.text, "policy.network=unet, or policy.network=shortcut_unet"),
       "a U-Net with layers for a step size asks whether they count");
    err = (struct mf_err){0};
    ok(import(file, to, WORDS("policy.n_groups=2", "policy.horizon=4", "policy.network=shortcut_unet"), NULL, 1,
              "identity", &left, &err) == 0,
       "with them it is imported %s", err.text);
    acts("heedful", to, MF_WEIGHTS_AUTO, "clone");
    int with = left;
    ok(import(file, to, WORDS("policy.n_groups=2", "policy.horizon=4", "policy.network=unet"), NULL, 1, "identity",
              &left, &err) == 0 &&
           left == with + 6,
       "without them they stay behind %s", err.text);
    acts("plain", to, MF_WEIGHTS_AUTO, "clone");
}

/* tests/reference/vision.py's files: a clone of one camera, and a fine-tuned shortcut policy of two. */
static void vit(const char *to)
{
    static const char clone[] = "tests/fixtures/vision_vit.pt", tuned[] = "tests/fixtures/vision_vit_tuned.pt";
    struct mf_err err = {0};
    int left = 0;
    free(fixture.bytes);
    fixture = fixture_load("tests/fixtures/vision_vit.bin");
    ok(import(clone, to, WORDS("policy.horizon=3"), NULL, 1, "identity", &left, &err) == MF_EUSAGE &&
           strstr(err.text, "policy.network=reflow_mlp") && strstr(err.text, "policy.activation"),
       "an image policy without a step size asks whether it predicts a velocity, and for its activation");
    err = (struct mf_err){0};
    ok(import(
           clone, to,
           WORDS("policy.horizon=3", "policy.network=reflow_mlp", "policy.activation=relu", "policy.encoder_heads=3"),
           NULL, 1, "identity", &left, &err) == 0,
       "with them it is imported %s", err.text);
    acts("clone", to, MF_WEIGHTS_AUTO, "clone");
    ok(import(tuned, to,
              WORDS("policy.horizon=3", "policy.activation=relu", "policy.encoder_heads=1", "policy.n_obs_steps=2"),
              NULL, 1, "identity", &left, &err) == 0 &&
           left > 0,
       "a fine-tuned one of two cameras and steps, too %s", err.text);
    acts("tuned", to, MF_WEIGHTS_AUTO, "ppo");
}

int main(void)
{
    const char *npz = "tests/fixtures/policy.npz";
    struct mf_layout world = {0};
    struct mf_err err = {0};
    char to[64];
    int left = 0;
    if (!mkdtemp(folder))
        return 1;
    snprintf(to, sizeof to, "%s/p", folder);
    must(mf_engine_open(&engine, "cpu", 1, MF_FP32, &err), &err);
    fixture = fixture_load("tests/fixtures/policy.bin");
    mf_layout_add(&world, &(struct mf_obs){.name = "where", .dim = {3}});
    mf_layout_add(&world, &(struct mf_obs){.name = "what", .dim = {2}});

    ok(import("tests/fixtures/policy_clone.pt", to, WORDS("policy.activation=relu"), &world, A, npz, &left, &err) == 0,
       "a clone is imported %s", err.text);
    acts("clone.ema", to, MF_WEIGHTS_AUTO, "clone");
    acts("clone.raw", to, MF_WEIGHTS_RAW, "clone");
    ok(import("tests/fixtures/policy_tuned.pt", to, WORDS("policy.activation=mish", "policy.horizon=3"), NULL, 1, npz,
              &left, &err) == 0 &&
           left > 0,
       "a fine-tuned one too, without an environment %s", err.text);
    acts("tuned", to, MF_WEIGHTS_AUTO, "ppo");
    ok(import("tests/fixtures/policy_dppo.pt", to, WORDS("policy.activation=mish"), &world, A, npz, &left, &err) == 0,
       "and one of DPPO's names %s", err.text);
    acts("dppo", to, MF_WEIGHTS_AUTO, "ppo");

    maniflow(to);
    unet(to);
    vit(to);

    mf_engine_close(engine);
    unlink(to);
    rmdir(folder);
    free(fixture.bytes);
    return done();
}
