/* Observations of any shape and type on their way: environment, actor, stream, learner's rows. */
#include <stdlib.h>
#include <string.h>

#include "policies.h"
#include "flow/sampler.h"
#include "rl/actor.h"
#include "eval/policy_in.h"
#include "rl/rows.h"

enum { N = 3, T = 4, TO = 2 };

/* Element i of key k after t steps is 100 k + t + i: a byte in the image. */
struct eye {
    int t, looks[4];
};

static struct eye *eyes[N];
static int n_eyes;

static int eye_init(void **state, const void *model, int max_steps, struct mf_err *err)
{
    (void)model, (void)max_steps, (void)err;
    eyes[n_eyes++] = *state = calloc(1, sizeof(struct eye));
    return 0;
}

static void eye_reset(void *state, struct mf_rng *rng)
{
    (void)rng;
    ((struct eye *)state)->t = 0;
}

static struct mf_env_step eye_step(void *state, const float *action)
{
    (void)action;
    ((struct eye *)state)->t++;
    return (struct mf_env_step){0};
}

static void eye_observe(void *state, int key, const struct mf_obs *as, float *to)
{
    struct eye *e = state;
    e->looks[key]++;
    for (int i = 0; i < mf_obs_count(as); i++)
        if (as->u8)
            ((uint8_t *)to)[i] = (uint8_t)(100 * key + e->t + i);
        else
            to[i] = (float)(100 * key + e->t + i);
}

static const struct mf_env eye = {
    .name = "eye",
    .obs = {{"state", {3}, false}, {"cloud", {4, 6}, false}, {"image", {2, 2, 3}, true}, {"goal", {1}, false}},
    .action_dim = 2,
    .max_steps = 60,
    .init = eye_init,
    .release = free,
    .reset = eye_reset,
    .step = eye_step,
    .observe = eye_observe};
static struct mf_err err;

static void layouts(void)
{
    struct mf_layout l, again;
    ok(mf_env_layout(&eye, 0, NULL, NULL, &l, &err) == 0 && l.n == 2 && l.dim == 4 && !strcmp(l.key[1].name, "goal"),
       "by default the layout has the keys of one dimension");
    const char names[][64] = {"image", "state", "picture"};
    ok(mf_env_layout(&eye, 2, names, NULL, &l, &err) == 0 && l.n == 2 && l.dim == 6 && l.key[0].u8 &&
           l.key[0].dim[2] == 3,
       "or the named ones, in that order");
    ok(mf_env_layout(&eye, 0, NULL, &l, &again, &err) == 0 && again.n == 2 && !strcmp(again.key[0].name, "image"),
       "or those that a policy was made for");
    static const char cloud[][64] = {"cloud"};
    ok(mf_env_layout(&eye, 1, cloud, NULL, &l, &err) == 0 && (mf_env_points(&eye, &l, 7), l.dim == 42) &&
           mf_env_layout(&eye, 0, NULL, &l, &again, &err) == 0 && again.key[0].dim[0] == 7 && again.dim == 42,
       "a cloud has as many points as asked for, or as the policy was made for");
    ok(mf_env_layout(&eye, 3, names, NULL, &l, &err) == MF_EUSAGE && strstr(err.text, "state, cloud, image, goal"),
       "%s", err.text);
    const struct mf_env blind = {.name = "blind", .obs = {{"left", {2, 2, 3}, true}, {"right", {2, 2, 3}, true}}};
    ok(mf_policy_obs(&l, &blind, &(struct mf_env_opts){0}, &(struct mf_names){0}, NULL, true, &err) == MF_EUSAGE &&
           strstr(err.text, "policy.obs_keys, such as left"),
       "%s", err.text);
    static const char twice[][64] = {"left", "left"};
    ok(mf_env_layout(&blind, 2, twice, NULL, &l, &err) == MF_EUSAGE && strstr(err.text, "'left' twice"), "%s",
       err.text);
}

/* The observations that a policy's keys choose, and the resulting spec. */
static void seen(void)
{
    struct mf_layout l, again;
    struct mf_env_opts eo = {.num_points = 7};
    const struct mf_names none = {0}, keys = {2, {"cloud", "goal"}};
    ok(mf_policy_obs(&l, &eye, &eo, &keys, NULL, true, &err) == 0 && l.n == 2 && l.key[0].dim[0] == 7 && l.dim == 43,
       "the layout has policy.obs_keys, with env.num_points");
    eo.num_points = 0;
    ok(mf_policy_obs(&again, &eye, &eo, &none, &l, true, &err) == 0 && again.n == 2 && again.dim == 43,
       "without either, those of the policy's training");

    struct mf_policy_spec s;
    struct mf_conf *conf = mf_conf_new();
    ok(mf_policy_spec_in(&s, &eye, &eo, NULL, &keys, conf, &err) == 0 && s.obs.dim == 25 && s.action_dim == 2,
       "a fresh policy has them, and the environment's action dim");
    mf_conf_free(conf);
}

static void rows_of(struct mf_policy *p, const struct mf_actor *a)
{
    struct mf_frame *f = mf_frame_new(MF_ROLLOUT);
    struct mf_rows r = {0};
    void *data;
    mf_frame_set_int(f, "iter", 0);
    mf_frame_set_str(f, "src", "");
    mf_frame_set_ints(f, "slice", (int64_t[]){0, 1}, 2);
    mf_frame_set_ints(f, "envs", (int64_t[]){0, N}, 2);
    must(mf_columns_slice(&a->columns, f, 0, N, &err), &err);
    must(mf_frame_add(f, "advantages", MF_F32, 2, (size_t[]){T, N}, &data, &err), &err);
    must(mf_frame_add(f, "returns", MF_F32, 2, (size_t[]){T, N}, &data, &err), &err);
    must(mf_rows_gather(&r, p, 0, &(double){.3}, &f, 1, &err), &err);
    size_t O = (size_t)r.O;
    enum { IMAGE = 3, STEP = IMAGE + 24 + 3 }; /* floats: 12 bytes, packed */
    float want[TO * STEP];
    bool same = O == TO * STEP;
    for (int t = 0; t < T; t++)
        for (int n = 0; n < N; n++) {
            const float *row = r.obs + (size_t)(n * T + t) * O;
            for (int o = 0; o < TO; o++) {
                int step = t + o - TO + 1 > 0 ? t + o - TO + 1 : 0;
                uint8_t image[12];
                for (int i = 0; i < 12; i++)
                    image[i] = (uint8_t)(200 + step + i);
                memcpy(want + o * STEP, image, sizeof image);
                for (int i = 0; i < 24; i++)
                    want[o * STEP + IMAGE + i] = (float)(100 + step + i);
                for (int i = 0; i < 3; i++)
                    want[o * STEP + IMAGE + 24 + i] = (float)(step + i);
            }
            mf_policy_normalize(p, 1, want, want);
            same &= !memcmp(row, want, sizeof want);
        }
    ok(same, "the learner's rows are the observations, normalised, the bytes of an image packed, key beside key");
    mf_rows_release(&r);
    must(mf_frame_add(f, "obs/image", MF_F32, 6, (size_t[]){T, N, TO, 2, 2, 3}, &data, &err), &err);
    ok(mf_rows_gather(&r, p, 0, &(double){.3}, &f, 1, &err) == MF_EFORMAT && strstr(err.text, "|u1"), "%s", err.text);
    mf_rows_release(&r);
    mf_frame_free(f);
}

static void acts(void)
{
    const char names[][64] = {"image", "cloud", "state"};
    struct mf_engine *engine;
    struct mf_sampler *sampler;
    struct mf_policy p;
    struct mf_actor a;
    struct mf_policy_spec s = small_spec("reflow_mlp");
    must(mf_env_layout(&eye, 3, names, NULL, &s.obs, &err), &err);
    s.n_obs_steps = TO;
    s.horizon = s.n_action_steps = 1;
    s.action_offset = 0;
    must(mf_engine_open(&engine, "cpu", 1, MF_FP32, &err), &err);
    must(mf_policy_init(&p, &s, &err), &err);
    mf_policy_fresh(&p, 0);
    mf_policy_set_noise(&p, .3, .3);
    for (int i = 0; i < mf_layout_features(&s.obs); i++)
        p.obs_scale[i] = .01f + .001f * (float)i, p.obs_offset[i] = (float)i;
    must(mf_sampler_new(&sampler, engine, &p, false, &err), &err);
    struct mf_actor_opts o = {.vec = {.env = &eye, .obs = s.obs, .N = N, .threads = 1}, .T = T};
    must(mf_actor_init(&a, &o, &p, sampler, &err), &err);
    must(mf_actor_rollout(&a, &err), &err);

    struct mf_frame *f = mf_frame_new(MF_ROLLOUT);
    must(mf_columns_slice(&a.columns, f, 1, 2, &err), &err);
    const struct mf_array *image = mf_frame_find(f, "obs/image"), *cloud = mf_frame_find(f, "obs/cloud");
    ok(image && image->dtype == MF_U8 && image->rank == 6 && image->dim[2] == TO && image->dim[5] == 3,
       "an image travels as uint8 (T, N, To, H, W, 3)");
    ok(image && ((const uint8_t *)image->data)[image->count - 1] == 200 + T - 1 + 11, "with its values");
    ok(cloud && cloud->dtype == MF_F32 && cloud->rank == 5 && cloud->dim[3] == 4 && cloud->dim[4] == 6,
       "points as float32 (T, N, To, points, 6)");
    mf_frame_free(f);
    ok(eyes[0]->looks[1] > 0 && eyes[0]->looks[3] == 0, "observations that are not requested are not computed");
    rows_of(&p, &a);
    mf_actor_release(&a);
    mf_sampler_free(sampler);
    mf_policy_release(&p);
    mf_engine_close(engine);
}

int main(void)
{
    layouts();
    seen();
    acts();
    return done();
}
