/* Convolutional encoders: the joined observation and gradients against PyTorch (tests/reference/vision_conv.py); codes
 * carried in place of pictures; the encoders of critics; what is refused. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "flow/sampler.h"
#include "flow/score.h"
#include "nn/encoder.h"
#include "device_under_test.h"
#include "policies.h"

enum { B = 2, KEPT = 40 };

static struct mf_engine *engine;
static struct fixture fixture;

/* ---- numbers that follow from names, as in vision_conv.py ---- */

static float noise(const char *name, uint32_t i)
{
    uint32_t h = 2166136261u;
    for (; *name; name++)
        h = (h ^ (uint8_t)*name) * 16777619u;
    uint32_t x = i * 2654435761u + h;
    for (int round = 0; round < 2; round++)
        x = (x ^ x >> 16) * 0x45d9f3bu;
    return (float)((x ^ x >> 16) >> 8) / (float)(1 << 24) - 0.5f;
}

static void fill(struct mf_params *ps)
{
    mf_params_fresh(ps, 1);
    for (int i = 0; i < ps->n; i++) {
        const struct mf_param *p = &ps->p[i];
        const size_t length = strlen(p->name);
        const bool weight = length > 6 && !strcmp(p->name + length - 6, "weight");
        const float a = (float)(2 * sqrt(1.5 / (double)p->cols));
        for (int j = 0; j < p->rows * p->cols && p->group == MF_GROUP_ENCODER; j++) {
            const float u = noise(p->name, (uint32_t)j);
            ps->value[p->at + (size_t)j] = p->rank == 1 ? u + (float)weight : (float)((double)a * (double)u);
        }
    }
    mf_params_touch(ps);
}

/* One step of key o in the flat vector. */
static void observe_key(const struct mf_obs *o, int b, int step, float *to)
{
    char name[96];
    const int n = mf_obs_count(o);
    uint8_t *bytes = calloc((size_t)n, 1);
    float *numbers = calloc((size_t)n, sizeof *numbers);
    snprintf(name, sizeof name, "%s.%d.%d", o->name, b, step);
    for (int i = 0; i < n; i++) {
        const float u = noise(name, (uint32_t)i);
        bytes[i] = (uint8_t)((u + 0.5f) * 256);
        numbers[i] = mf_obs_is_picture(o) ? 1 + 2 * u : u;
    }
    mf_obs_pack(o, o->u8 ? (void *)bytes : (void *)numbers, to);
    free(bytes), free(numbers);
}

static float *observations(const struct mf_policy_spec *s)
{
    float *obs = calloc((size_t)(B * s->n_obs_steps * s->obs.dim), sizeof *obs), *to = obs;
    for (int i = 0; i < B * s->n_obs_steps; i++)
        for (int k = 0; k < s->obs.n; to += mf_obs_size(&s->obs.key[k++]))
            observe_key(&s->obs.key[k], i / s->n_obs_steps, i % s->n_obs_steps, to);
    return obs;
}

/* ---- policies ---- */

static struct mf_policy_spec spec_of(const char *encoder, int steps, int n, const struct mf_obs *keys)
{
    struct mf_err err;
    struct mf_policy_spec s = small_spec("reflow_mlp");
    s.obs = (struct mf_layout){0};
    s.n_obs_steps = steps;
    for (int i = 0; i < n; i++)
        mf_layout_add(&s.obs, &keys[i]);
    must(mf_encoder_find(&s.net.encoder, encoder, &err), &err);
    return s;
}

#define SPEC(encoder, steps, ...)                                                                                      \
    spec_of(encoder, steps, sizeof((struct mf_obs[]){__VA_ARGS__}) / sizeof(struct mf_obs),                            \
            (struct mf_obs[]){__VA_ARGS__})

static struct mf_policy_spec pooled(void)
{
    struct mf_policy_spec s = SPEC("plain_conv", 1, {"image", {33, 29, 3}, true}, {"state", {3}, false});
    s.net.encoder_dim = 6, s.net.pool_map = true;
    return s;
}

/* Two cameras with depth, of which the code stands after the first state. */
static struct mf_policy_spec flat(void)
{
    struct mf_policy_spec s =
        SPEC("plain_conv", 2, {"arm", {2}, false}, {"a", {21, 38, 3}, true}, {"b", {21, 38, 3}, true},
             {"a_depth", {21, 38, 1}, false}, {"b_depth", {21, 38, 1}, false}, {"hand", {1}, false});
    s.net.encoder_dim = 5;
    return s;
}

/* A state between the pictures; a window of an odd and an even margin. */
static struct mf_policy_spec nature(void)
{
    struct mf_policy_spec s =
        SPEC("nature", 2, {"a", {42, 40, 3}, true}, {"state", {2}, false}, {"b", {42, 40, 3}, true});
    s.net.encoder_dim = 7, s.net.crop = 37;
    s.net.n_channels = 3, s.net.channels[0] = 8, s.net.channels[1] = 6, s.net.channels[2] = 5;
    return s;
}

/* ManiSkill's: a Linear over the state. */
static struct mf_policy_spec nature_state(void)
{
    struct mf_policy_spec s = SPEC("nature", 2, {"arm", {2}, false}, {"a", {38, 36, 3}, true}, {"hand", {1}, false});
    s.net.encoder_dim = 7, s.net.state_dim = 6;
    s.net.n_channels = 3, s.net.channels[0] = 8, s.net.channels[1] = 6, s.net.channels[2] = 5;
    return s;
}

static void set_widths(struct mf_net_spec *s, int a, int b, int c, int d, int group)
{
    s->n_resnet = 4, s->encoder_group = group;
    s->resnet[0] = a, s->resnet[1] = b, s->resnet[2] = c, s->resnet[3] = d;
}

/* Two cameras, whose codes stand apart; a shortcut of a stride alone, and two of more channels. */
static struct mf_policy_spec mean(void)
{
    struct mf_policy_spec s =
        SPEC("resnet18", 1, {"a", {45, 38, 3}, true}, {"state", {2}, false}, {"b", {45, 38, 3}, true});
    set_widths(&s.net, 4, 4, 8, 12, 4);
    return s;
}

/* A last map of 3 x 4 pixels. */
static struct mf_policy_spec spatial(void)
{
    struct mf_policy_spec s = SPEC("resnet18", 2, {"a", {71, 100, 3}, true}, {"hand", {1}, false});
    set_widths(&s.net, 4, 8, 8, 8, 4);
    s.net.resnet_head = MF_RESNET_SPATIAL, s.net.keypoints = 5, s.net.encoder_dim = 3;
    return s;
}

static struct mf_policy_spec folded(void)
{
    struct mf_policy_spec s = SPEC("resnet18", 1, {"a", {34, 34, 3}, true});
    set_widths(&s.net, 4, 4, 6, 10, 0);
    return s;
}

/* ---- against PyTorch ---- */

static float *wanted(const char *name, const char *what, size_t *n)
{
    char key[200];
    snprintf(key, sizeof key, "%s.%s", name, what);
    float *v = fixture_find(&fixture, key, n);
    if (!v)
        printf("Bail out! no %s\n", key), exit(1);
    return v;
}

static void same(const char *name, const char *what, const float *got, size_t step, double bound)
{
    size_t n;
    double far = 0, most = 1e-6;
    float *want = wanted(name, what, &n);
    for (size_t i = 0; i < n; i++) {
        far = worse(far, fabs((double)got[i * step] - (double)want[i]));
        most = fmax(most, fabs((double)want[i]));
    }
    ok(far <= bound * most, "%s: %s, off by %.1e of the largest of %zu", name, what, far / most, n);
    free(want);
}

static void as_torch(const char *name, struct mf_policy_spec s)
{
    struct mf_err err;
    struct mf_policy p;
    struct mf_plan *plan;
    must(mf_policy_init(&p, &s, &err), &err);
    fill(&p.params);
    struct mf_graph *g = mf_graph_new(&p.params);
    struct mf_val obs = mf_input(g, 1, p.spec.net.O), seen = mf_net_features(g, &p.spec.net, obs, false).obs;
    const int n = mf_cols(g, seen);
    ok(n == mf_net_inputs(&p.spec.net), "%s: %d columns", name, n);
    struct mf_val target = mf_input(g, 1, n), weight = mf_input(g, 1, 1);
    mf_loss(g, mf_mse(g, seen, target, weight), 1);
    must(mf_plan_new(&plan, engine, g, &(struct mf_plan_opts){.backward = true}, &err), &err);
    float *cond = calloc((size_t)(B * n), sizeof *cond), *want = calloc((size_t)(B * n), sizeof *want),
          *flat_obs = observations(&p.spec), one[B] = {1, 1};
    for (int i = 0; i < B * n; i++)
        want[i] = noise("target", (uint32_t)i);
    const struct mf_feed feed[] = {
        {obs, flat_obs, (size_t)p.spec.net.O, false}, {target, want, (size_t)n, false}, {weight, one, 1, false}};
    const struct mf_fetch fetch = {seen, cond, (size_t)n};
    must(mf_plan_run(plan, &(struct mf_batch){.n = B, .feed = feed, .n_feeds = 3, .fetch = &fetch, .n_fetches = 1},
                     &err),
         &err);
    same(name, "cond", cond, 1, 1e-5);
    for (int i = 0; i < p.params.n; i++) {
        const struct mf_param *q = &p.params.p[i];
        char what[160];
        const int count = q->rows * q->cols;
        snprintf(what, sizeof what, "grad/%s", q->name);
        if (q->group == MF_GROUP_ENCODER)
            same(name, what, mf_plan_grads(plan) + q->at, (size_t)((count + KEPT - 1) / KEPT), 2e-5);
    }
    mf_plan_free(plan);
    mf_graph_free(g);
    mf_policy_release(&p);
    free(cond), free(want), free(flat_obs);
}

/* ---- in reinforcement learning ---- */

/* The flat observation of an encoded spec: codes in the place of pictures. */
static float *encoded_rows(const struct mf_policy *p, const struct mf_net_spec *e, const float *obs, const float *code)
{
    const struct mf_layout *l = &p->spec.obs;
    float *rows = calloc((size_t)(B * e->O), sizeof *rows), *to = rows;
    for (int i = 0; i < B * p->spec.n_obs_steps; i++) {
        bool placed = false;
        for (int k = 0; k < l->n; obs += mf_obs_size(&l->key[k++])) {
            const float *from = mf_obs_is_picture(&l->key[k]) ? code : obs;
            const int n = !mf_obs_is_picture(&l->key[k]) ? mf_obs_size(&l->key[k]) : placed ? 0 : e->encoded;
            memcpy(to, from, (size_t)n * sizeof *to);
            placed |= mf_obs_is_picture(&l->key[k]);
            to += n;
        }
        code += e->encoded;
    }
    return rows;
}

/* What the graph of scoring makes of observations: the joined observation, then the value. */
static void scored(struct mf_policy *p, const float *obs, float *seen, float *values)
{
    struct mf_err err;
    struct mf_plan *plan;
    const struct mf_net_spec *s = &p->spec.net;
    struct mf_graph *g = mf_graph_new(&p->params);
    struct mf_val in = mf_input(g, 1, s->O);
    struct mf_share share = mf_net_features(g, s, in, true);
    struct mf_val value = mf_net_value(g, s, p->spec.n_critic, p->spec.critic, &share);
    must(mf_plan_new(&plan, engine, g, &(struct mf_plan_opts){0}, &err), &err);
    const struct mf_feed feed = {in, obs, (size_t)s->O, false};
    const struct mf_fetch fetch[] = {{share.obs, seen, (size_t)mf_net_inputs(s)}, {value, values, 1}};
    must(mf_plan_run(plan, &(struct mf_batch){.n = B, .feed = &feed, .n_feeds = 1, .fetch = fetch, .n_fetches = 2},
                     &err),
         &err);
    mf_plan_free(plan);
    mf_graph_free(g);
}

static void carried(const char *name, struct mf_policy_spec s)
{
    enum { MOST = 64 };
    struct mf_err err;
    struct mf_policy p;
    struct mf_sampler *m;
    must(mf_policy_init(&p, &s, &err), &err);
    fill(&p.params);
    mf_policy_plain(&p);
    const struct mf_net_spec pictures = p.spec.net, codes = mf_net_encoded(&pictures);
    const int K = p.spec.K, D = pictures.D;
    float *obs = observations(&p.spec), *code = calloc((size_t)(B * pictures.O), sizeof *code),
          *zero = calloc((size_t)(B * (K + 1) * D), sizeof *zero), actions[B * MOST], values[B], mine[B], theirs[B],
          a[B * MOST], b[B * MOST];
    must(mf_sampler_new(&m, engine, &p, false, &err), &err);
    const struct mf_sample x = {
        .obs = obs, .noise = zero, .eps = zero, .actions = actions, .values = values, .encoding = code};
    must(mf_sampler_run(m, B, &x, &err), &err);
    scored(&p, obs, a, mine);
    float *rows = encoded_rows(&p, &codes, obs, code);
    p.spec.net = codes;
    ok(codes.encoded > 0 && codes.O < pictures.O && mf_net_inputs(&codes) == mf_net_inputs(&pictures),
       "%s: codes of %d numbers a step replace the pictures", name, codes.encoded);
    scored(&p, rows, b, theirs);
    ok(!memcmp(a, b, sizeof(float) * (size_t)(B * mf_net_inputs(&codes))), "%s: a network sees the same bits", name);
    ok(!memcmp(mine, theirs, sizeof mine) && !memcmp(mine, values, sizeof mine), "%s: and so does the critic", name);
    mf_sampler_free(m);
    mf_policy_release(&p);
    free(obs), free(code), free(zero), free(rows);
}

/* Squares of the value's gradients: of the policy's encoder, and of the critic's parameters with `word` in their name.
 */
static void value_grads(struct mf_policy *p, const char *word, double of[2])
{
    struct mf_err err;
    struct mf_plan *plan;
    const struct mf_net_spec *s = &p->spec.net;
    struct mf_graph *g = mf_graph_new(&p->params);
    struct mf_val in = mf_input(g, 1, s->O);
    struct mf_share share = mf_net_features(g, s, in, false);
    mf_loss(g, mf_net_value(g, s, p->spec.n_critic, p->spec.critic, &share), 1);
    must(mf_plan_new(&plan, engine, g, &(struct mf_plan_opts){.backward = true}, &err), &err);
    float *obs = observations(&p->spec);
    const struct mf_feed feed = {in, obs, (size_t)s->O, false};
    must(mf_plan_run(plan, &(struct mf_batch){.n = B, .feed = &feed, .n_feeds = 1}, &err), &err);
    of[0] = of[1] = 0;
    for (int i = 0; i < p->params.n; i++) {
        const struct mf_param *q = &p->params.p[i];
        const int to = q->group == MF_GROUP_ENCODER ? 0 : q->group == MF_GROUP_CRITIC && strstr(q->name, word) ? 1 : -1;
        for (int j = 0; j < q->rows * q->cols && to >= 0; j++)
            of[to] += pow((double)mf_plan_grads(plan)[q->at + (size_t)j], 2);
    }
    mf_plan_free(plan);
    mf_graph_free(g);
    free(obs);
}

static void critics(struct mf_policy_spec s, const char *word)
{
    struct mf_err err;
    struct mf_policy p;
    double of[2];
    must(mf_policy_init(&p, &s, &err), &err);
    fill(&p.params);
    const size_t critic = mf_params_count(&p.params, MF_GROUP_CRITIC),
                 encoder = mf_params_count(&p.params, MF_GROUP_ENCODER);
    value_grads(&p, "Q1", of);
    ok(of[0] == 0 && of[1] > 0, "%s: a shared encoder learns nothing from the critic", s.net.encoder->name);
    mf_policy_release(&p);

    s.net.critic_encoder = MF_CRITIC_OWN;
    must(mf_policy_init(&p, &s, &err), &err);
    fill(&p.params);
    ok(mf_params_count(&p.params, MF_GROUP_CRITIC) == critic + encoder &&
           mf_params_count(&p.params, MF_GROUP_ENCODER) == encoder,
       "%s: the critic's own has the same parameters again", s.net.encoder->name);
    value_grads(&p, word, of);
    ok(of[0] == 0 && of[1] > 0, "%s: and they learn", s.net.encoder->name);
    ok(mf_net_encoded(&p.spec.net).encoded == 0, "%s: codes do not replace the pictures that it sees",
       s.net.encoder->name);
    mf_policy_release(&p);
}

/* Published sizes, of one camera. */
static void counts(void)
{
    static const struct {
        enum mf_resnet_head head;
        size_t count;
    } rows[] = {{MF_RESNET_SPATIAL, 11197088}, {MF_RESNET_MEAN, 11176512}};
    for (int i = 0; i < 2; i++) {
        struct mf_err err;
        struct mf_policy p;
        struct mf_policy_spec s = SPEC("resnet18", 1, {"agentview_image", {84, 84, 3}, true});
        set_widths(&s.net, 64, 128, 256, 512, 16);
        s.net.crop = 76, s.net.resnet_head = rows[i].head, s.net.keypoints = 32, s.net.encoder_dim = 64;
        must(mf_policy_outline(&p, &s, &err), &err);
        const size_t n = mf_params_count(&p.params, MF_GROUP_ENCODER);
        ok(n == rows[i].count, "ResNet-18 of the published size: %zu parameters", n);
        mf_policy_release(&p);
    }
}

/* ---- refused ---- */

static void refused(void)
{
    struct mf_policy_spec s = pooled();
    s.obs.key[0].dim[1] = 15;
    refuses(s, "smaller than 16 x 16");
    s = flat();
    s.obs.key[3].dim[0] = 22;
    refuses(s, "needs pictures of one size: a has 21 x 38 pixels, and a_depth 22 x 38");
    s = nature();
    s.net.crop = 35;
    refuses(s, "at least 36 x 36");
    s = nature();
    s.net.crop = 41;
    refuses(s, "policy.crop=41 is larger than the 42 x 40 pixels of a");
    s = nature();
    s.net.n_channels = 2;
    refuses(s, "needs 3 widths, not 2");
    s = nature();
    memcpy(s.obs.key[0].dim, (int[]){3, 42, 40}, sizeof s.obs.key[0].dim);
    refuses(s, "a is (3, 42, 40), which looks like (channels, height, width)");
    s = mean();
    s.net.encoder_group = 3;
    refuses(s, "policy.encoder_group=3 must divide every width of policy.resnet_channels, and does not divide 4");
    s = mean();
    s.net.n_resnet = 3;
    refuses(s, "needs 4 widths, not 3");
    s = mean();
    memset(s.obs.key[2].name, 'b', 57);
    refuses(s, "is longer than 56 bytes");
    s.obs.key[2].name[56] = 0;
    s.net.critic_encoder = MF_CRITIC_OWN, s.net.resnet_head = MF_RESNET_SPATIAL;
    s.net.keypoints = 5, s.net.encoder_dim = 3;
    struct mf_err err;
    struct mf_policy p;
    ok(mf_policy_outline(&p, &s, &err) == 0, "a picture's name of 56 bytes");
    mf_policy_release(&p);
}

int main(void)
{
    struct mf_err err;
    must(mf_engine_open(&engine, device_under_test(), 2, MF_FP32, &err), &err);
    fixture = fixture_load("tests/fixtures/vision_conv.bin");
    as_torch("pooled", pooled());
    as_torch("nature", nature());
    as_torch("nature_state", nature_state());
    as_torch("spatial", spatial());
    if (!few_cases()) {
        as_torch("flat", flat());
        as_torch("mean", mean());
        as_torch("folded", folded());
        carried("pooled", pooled());
        carried("flat", flat());
        carried("spatial", spatial());
        carried("nature_state", nature_state());
        critics(pooled(), "critic.visual_encoder.");
        critics(nature(), "critic.feature_net.");
        critics(mean(), "critic.obs_encoder.");
        counts();
        refused();
    }
    free(fixture.bytes);
    mf_engine_close(engine);
    return done();
}
