/* Checkpoints and policy frames of a real policy: bytes, bits, and the errors for incompatible ones. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "flow/checkpoint.h"
#include "flow/mismatches.h"
#include "flow/frames.h"
#include "run/safetensors.h"
#include "tap.h"

static struct mf_policy_spec example(int hidden)
{
    struct mf_policy_spec s = {
        .obs = {2, 6, {{"state", {4}, false}, {"goal", {2}, false}}},
        .n_obs_steps = 2,
        .action_dim = 3,
        .horizon = 4,
        .n_action_steps = 4,
        .K = 4,
        .noise_method = MF_FLOW_NOISE,
        .learned_noise = true,
        .net = {.n_hidden = 3, .hidden = {hidden, hidden, hidden}, .act = MF_ACT_RELU, .time_dim = 16},
        .n_critic = 3,
        .critic = {24, 24, 24},
        .n_noise = 1,
        .noise = {16}};
    struct mf_err err;
    mf_net_find(&s.net.net, "reflow_mlp", &err);
    return s;
}

/* A policy with every number different from a fresh one's. */
static int make(struct mf_policy *p, int hidden, uint64_t seed, struct mf_err *err)
{
    struct mf_policy_spec s = example(hidden);
    int rc = mf_policy_init(p, &s, err);
    if (rc)
        return rc;
    mf_policy_set_noise(p, .1, .24);
    mf_policy_fresh(p, seed);
    for (int i = 0; i < 6; i++)
        p->obs_scale[i] = 1 + (float)i / 8, p->obs_offset[i] = (float)i / 3;
    p->action_offset[1] = .25f;
    p->version = 7;
    p->iter = 7;
    p->global_step = 123456789012;
    return 0;
}

static bool same_bits(const struct mf_policy *a, const struct mf_policy *b)
{
    char x[17], y[17];
    mf_policy_digest(a, x);
    mf_policy_digest(b, y);
    return a->params.size == b->params.size &&
           !memcmp(a->params.value, b->params.value, a->params.size * sizeof(float)) &&
           !memcmp(a->obs_scale, b->obs_scale, 18 * sizeof(float)) && a->noise_low == b->noise_low &&
           a->noise_high == b->noise_high && a->version == b->version && a->iter == b->iter &&
           a->global_step == b->global_step && b->has_normalizer && !strcmp(x, y);
}

static char *whole_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    char *bytes = calloc(1, 1 << 20);
    *size = f ? fread(bytes, 1, 1 << 20, f) : 0;
    if (f)
        fclose(f);
    return bytes;
}

static float *ema_of(const struct mf_policy *p)
{
    float *ema = calloc(p->params.size, sizeof *ema);
    for (size_t i = 0; i < p->params.size; i++)
        ema[i] = p->params.value[i] + 1;
    return ema;
}

static void saves_and_loads(void)
{
    struct mf_policy p, q;
    struct mf_err err = {0};
    struct mf_adam adam = {.step = {9, 8, 7}}, back;
    struct mf_loaded *l;
    ok(make(&p, 32, 1, &err) == 0 && make(&q, 32, 2, &err) == 0, "two policies %s", err.text);
    mf_adam_init(&adam, NULL, &p.params, &err);
    mf_adam_init(&back, NULL, &p.params, &err);
    adam.step[0] = 9, adam.step[1] = 8, adam.step[2] = 7;
    for (size_t i = 0; i < p.params.size; i++)
        adam.m[i] = -(float)i, adam.v[i] = (float)i;
    float *ema = ema_of(&p);
    const struct mf_state states[] = {{"", "first", 5}, {"b", "\0second", 7}};
    const char *extra[][2] = {{"seed", "42"}, {"critic_steps", "5"}};
    struct mf_checkpoint c = {.policy = &p,
                              .ema = ema,
                              .adam = &adam,
                              .kind = "ppo",
                              .n_states = 2,
                              .states = states,
                              .n_extra = 2,
                              .extra = extra};
    ok(mf_checkpoint_save(in_folder("a"), &c, &err) == 0 && mf_checkpoint_save(in_folder("b"), &c, &err) == 0,
       "a checkpoint is saved %s", err.text);
    size_t n, m;
    char *x = whole_file(in_folder("a"), &n), *y = whole_file(in_folder("b"), &m);
    ok(n == m && n > 10000 && !memcmp(x, y, n), "the same content is the same bytes (%zu)", n);
    ok(!memmem(x, n, folder + 5, strlen(folder) - 5), "which name no path");
    free(x);
    free(y);

    ok(mf_checkpoint_open(&l, in_folder("a"), &err) == 0, "it opens %s", err.text);
    ok(mf_policy_spec_agree(&p.spec, "a", mf_loaded_spec(l), "b", &err) == 0, "with its spec %s", err.text);
    ok(!strcmp(mf_loaded_kind(l), "ppo") && !strcmp(mf_loaded_extra(l, "seed"), "42") && !mf_loaded_extra(l, "none"),
       "its kind and extras");
    const struct mf_state *s;
    ok(mf_loaded_states(l, &s) == 2 && s[0].size == 5 && !memcmp(s[0].bytes, "first", 5) && !strcmp(s[0].src, "") &&
           s[1].size == 7 && !memcmp(s[1].bytes, "\0second", 7) && !strcmp(s[1].src, "b"),
       "the collectors' states");
    ok(!same_bits(&p, &q) && mf_loaded_policy(l, &q, MF_WEIGHTS_AUTO, &err) == 0 && same_bits(&p, &q),
       "the weights, to the last bit: raw ones of PPO %s", err.text);
    ok(mf_loaded_policy(l, &q, MF_WEIGHTS_EMA, &err) == 0 && q.params.value[0] == ema[0], "or the EMA, when asked for");
    int critic = mf_param_find(&p.params, "critic.layers.0.weight");
    for (int i = 0; i < p.params.n && critic < 0; i++)
        critic = p.params.p[i].group == MF_GROUP_CRITIC ? i : -1;
    ok(q.params.value[p.params.p[critic].at] == p.params.value[p.params.p[critic].at], "whose critic has none");
    ok(mf_loaded_adam(l, &p.params, &back, &err) == 0 && back.step[0] == 9 && back.step[2] == 7 &&
           back.m[0] == adam.m[0] && back.v[1] == adam.v[1],
       "the optimiser's state %s", err.text);
    const struct mf_safetensors *raw = mf_loaded_file(l);
    ok(mf_safetensors_find(raw, "explore_noise_net.logvar_max") &&
           !mf_safetensors_find(raw, "opt/explore_noise_net.logvar_max/m") &&
           mf_safetensors_find(raw, "opt/network.mlp_mean.layers.0.weight/m"),
       "of what is trained alone");
    float *again = calloc(p.params.size, sizeof *again);
    back.ema = again;
    ok(mf_loaded_ema(l, &p.params, &back, &err) == 0 && again[0] == ema[0], "and the EMA %s", err.text);
    mf_checkpoint_close(l);
    free(again);
    free(ema);
    mf_adam_release(&adam);
    mf_adam_release(&back);
    mf_policy_release(&p);
    mf_policy_release(&q);
}

/* An optimiser state that would spoil the resumed run. */
static void spoiled(void)
{
    struct mf_policy p;
    struct mf_err err = {0};
    struct mf_loaded *l;
    make(&p, 32, 1, &err);
    int critic = p.params.n - 1;
    while (p.params.p[critic].group != MF_GROUP_CRITIC)
        critic--;
    const size_t at = p.params.p[critic].at;
    for (int i = 0; i < 5; i++) {
        struct mf_adam adam = {0}, back = {0};
        float *ema = ema_of(&p);
        mf_adam_init(&adam, NULL, &p.params, &err);
        mf_adam_init(&back, NULL, &p.params, &err);
        const struct {
            float *at, value;
            const char *says;
        } spoil[] = {{&adam.m[at], NAN, "/m is nan"},
                     {&adam.v[at], INFINITY, "/v is inf"},
                     {&adam.v[at], -1, "/v is -1"},
                     {&ema[0], NAN, "number 0 of ema/"},
                     {&adam.m[at], 1, NULL}};
        *spoil[i].at = spoil[i].value;
        struct mf_checkpoint c = {.policy = &p, .ema = ema, .adam = &adam, .kind = "ppo"};
        int rc = mf_checkpoint_save(in_folder("varied"), &c, &err) || mf_checkpoint_open(&l, in_folder("varied"), &err);
        if (ok(rc == 0, "it opens")) {
            back.ema = ema;
            (void)((rc = mf_loaded_adam(l, &p.params, &back, &err)) || (rc = mf_loaded_ema(l, &p.params, &back, &err)));
            ok(spoil[i].says ? rc == MF_EFORMAT && strstr(err.text, spoil[i].says) : rc == 0, "resumed: %s",
               rc ? err.text : "it is whole");
            mf_checkpoint_close(l);
        }
        mf_adam_release(&adam);
        mf_adam_release(&back);
        free(ema);
    }
    mf_policy_release(&p);
}

static void clones(void)
{
    struct mf_policy p, q;
    struct mf_err err = {0};
    struct mf_loaded *l;
    make(&p, 32, 1, &err);
    p.noise_high = .9;
    p.spec.n_critic = 0; /* as a clone that never had one */
    float *ema = ema_of(&p);
    struct mf_checkpoint c = {.policy = &p, .ema = ema, .kind = "clone"};
    int n = p.params.n;
    for (p.params.n = 0; p.params.p[p.params.n].group == MF_GROUP_POLICY;)
        p.params.n++;
    ok(p.params.n < n && mf_checkpoint_save(in_folder("clone"), &c, &err) == 0,
       "a clone without critic and noise net %s", err.text);
    make(&q, 32, 5, &err);
    float fresh = q.params.value[q.params.p[n - 1].at];
    q.spec.K = 2;
    q.spec.objective = MF_CHAIN_SUM;
    ok(mf_checkpoint_open(&l, in_folder("clone"), &err) == 0 && mf_loaded_policy(l, &q, MF_WEIGHTS_AUTO, &err) == 0,
       "starts a policy that explores otherwise %s", err.text);
    ok(q.params.value[0] == ema[0], "with the EMA's weights");
    ok(q.params.value[q.params.p[n - 1].at] == fresh && q.noise_high == .24, "and leaves the rest as it was");
    mf_checkpoint_close(l);
    c.ema = NULL;
    ok(mf_checkpoint_save(in_folder("clone"), &c, &err) == 0 && mf_checkpoint_open(&l, in_folder("clone"), &err) == 0 &&
           mf_loaded_policy(l, &q, MF_WEIGHTS_AUTO, &err) == 0 && q.params.value[0] == p.params.value[0],
       "a clone without EMA gives its own");
    ok(mf_loaded_policy(l, &q, MF_WEIGHTS_EMA, &err) == MF_EUSAGE && strstr(err.text, "policy.weights=raw"), "%s",
       err.text);
    struct mf_adam adam;
    mf_adam_init(&adam, NULL, &q.params, &err);
    ok(mf_loaded_adam(l, &q.params, &adam, &err) == MF_EFORMAT && strstr(err.text, "no optimiser state"), "%s",
       err.text);
    mf_adam_release(&adam);
    mf_checkpoint_close(l);
    p.params.n = n;
    free(ema);
    mf_policy_release(&p);
    mf_policy_release(&q);
}

/* The file with one tensor or one word of metadata changed: renamed, or (to NULL) left out. */
static void vary(const char *from, const char *to)
{
    struct mf_safetensors f;
    struct mf_err err;
    if (mf_safetensors_open(&f, in_folder("good"), &err))
        return;
    int n = 0, n_meta = 0;
    for (int i = 0; i < f.n; i++)
        if (strcmp(f.tensors[i].name, from) || to) {
            f.tensors[n] = f.tensors[i];
            if (to && !strcmp(f.tensors[n].name, from))
                snprintf(f.tensors[n].name, MF_NAME_MAX, "%s", to);
            n++;
        }
    for (int i = 0; i < f.n_meta; i++)
        if (strcmp(f.meta[i].key, from) || to) {
            f.meta[n_meta] = f.meta[i];
            if (to && !strcmp(f.meta[n_meta].key, from))
                f.meta[n_meta].value = to;
            n_meta++;
        }
    mf_safetensors_write(in_folder("varied"), f.tensors, n, f.meta, n_meta, &err);
    mf_safetensors_close(&f);
}

static void mismatches(void)
{
    struct mf_policy p, q;
    struct mf_err err = {0};
    struct mf_loaded *l;
    make(&p, 32, 1, &err);
    make(&q, 32, 3, &err);
    struct mf_checkpoint c = {.policy = &p, .kind = "ppo"};
    mf_checkpoint_save(in_folder("good"), &c, &err);
    const char *first = p.params.p[0].name;
    float before = q.params.value[0];
    static const struct {
        const char *from, *to, *says;
        bool opens;
    } cases[] = {{NULL, NULL, "is missing", true},
                 {NULL, "network.other", "network.other is left over", true},
                 {"normalizer.params_dict.action.offset", NULL, "without its normaliser", true},
                 {"format", NULL, "no checkpoint of a policy", false},
                 {"format", "maniflow 2", "format='maniflow 2'", false},
                 {"iter", "7x", "iter='7x', which is no integer", false},
                 {"iter", "99999999999999999999", "no integer", false},
                 {"noise_low", "nan", "no number", false},
                 {"spec.horizon", NULL, "lacks spec.horizon", false},
                 {"spec.horizon", "0", "the policy's horizon cannot be '0'", false},
                 {"spec.horizon", "5", "policy.horizon is 5 in", true},
                 {"spec.network", "other", "no such network", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vary(cases[i].from ? cases[i].from : first, cases[i].to);
        int rc = mf_checkpoint_open(&l, in_folder("varied"), &err);
        ok(cases[i].opens == !rc, "it %s", cases[i].opens ? "opens" : "does not open");
        if (!rc) {
            rc = mf_loaded_policy(l, &q, MF_WEIGHTS_AUTO, &err);
            mf_checkpoint_close(l);
        }
        ok(rc < 0 && strstr(err.text, cases[i].says), "%s", err.text);
    }
    ok(q.params.value[0] == before, "the policy was not touched");

    struct mf_policy wide;
    make(&wide, 48, 1, &err);
    mf_checkpoint_open(&l, in_folder("good"), &err);
    ok(mf_loaded_policy(l, &wide, MF_WEIGHTS_RAW, &err) == MF_EUSAGE &&
           strstr(err.text, "policy.hidden is [32,32,32] in"),
       "%s", err.text);
    memcpy(wide.spec.net.hidden, p.spec.net.hidden, sizeof wide.spec.net.hidden); /* a file that lies */
    ok(mf_loaded_policy(l, &wide, MF_WEIGHTS_RAW, &err) == MF_EFORMAT && strstr(err.text, "and should be (48, ") &&
           strstr(err.text, " more"),
       "%s", err.text);
    struct mf_mismatches m = {.n = 0};
    mf_mismatch_shape(&m, "x", 1, (size_t[]){3}, 2, (size_t[]){1, 3});
    ok(m.n == 1 && !strcmp(m.text, "x is (3) and should be (1, 3)"), "%s", m.text);
    mf_checkpoint_close(l);
    p.has_normalizer = false;
    ok(mf_checkpoint_save(in_folder("bad"), &c, &err) == MF_EUSAGE && strstr(err.text, "no normaliser") &&
           access(in_folder("bad"), F_OK) != 0,
       "%s", err.text);
    if (truncate(in_folder("good"), 20000) == 0)
        ok(mf_checkpoint_open(&l, in_folder("good"), &err) == MF_EFORMAT && strstr(err.text, "half-written or cut"),
           "%s", err.text);
    mf_policy_release(&p);
    mf_policy_release(&q);
    mf_policy_release(&wide);
}

/* What the policy has no part for stays in the file: noise nets have two names. */
static void parts_left(void)
{
    struct mf_policy p, q;
    struct mf_err err = {0};
    struct mf_loaded *l;
    make(&p, 32, 1, &err);
    mf_checkpoint_save(in_folder("good"), &(struct mf_checkpoint){.policy = &p, .kind = "ppo"}, &err);
    vary("explore_noise_net.logvar_min", "noise_head.logvar_min");
    for (int critic = 0; critic < 2; critic++) {
        struct mf_policy_spec s = example(32);
        s.learned_noise = false;
        s.n_critic *= critic;
        mf_policy_init(&q, &s, &err);
        mf_checkpoint_open(&l, in_folder("varied"), &err);
        ok(mf_loaded_policy(l, &q, MF_WEIGHTS_RAW, &err) == 0, "PPO's policy without its noise net%s %s",
           critic ? "" : " and critic", err.text);
        mf_checkpoint_close(l);
        mf_policy_release(&q);
    }
    mf_policy_release(&p);
}

static void frames(void)
{
    struct mf_policy p, q;
    struct mf_err err = {0};
    void **part;
    size_t *size;
    int n;
    make(&p, 32, 1, &err);
    make(&q, 32, 2, &err);
    q.version = 0;
    ok(mf_policy_encode(&p, false, &part, &size, &n, &err) == 0 && n == 1, "a small policy is one frame %s", err.text);
    struct mf_frame *came = NULL;
    ok(mf_frame_decode(&came, part[0], size[0], &err) == 0 && mf_policy_from_frame(&q, came, &err) == 0 &&
           same_bits(&p, &q),
       "which gives the same bits elsewhere %s", err.text);
    mf_policy_drop(part, size, n);
    struct mf_policy wide;
    make(&wide, 48, 1, &err);
    ok(mf_policy_from_frame(&wide, came, &err) == MF_EFORMAT && strstr(err.text, "another shape"), "%s", err.text);
    mf_frame_set_ints(came, "part", (int64_t[]){1, 2}, 2);
    ok(mf_policy_from_frame(&q, came, &err) == MF_EFORMAT && strstr(err.text, "part 1 of 2"), "%s", err.text);
    mf_frame_free(came);

    char a[17], b[17];
    mf_policy_digest(&p, a);
    p.noise_high = .25;
    mf_policy_digest(&p, b);
    ok(strlen(a) == 16 && strcmp(a, b), "the digest depends on the current noise (%s, %s)", a, b);
    p.noise_high = .24;
    uint32_t bits;
    float *last = p.params.value + p.params.p[p.params.n - 1].at;
    memcpy(&bits, last, sizeof bits);
    bits ^= 1;
    memcpy(last, &bits, sizeof bits);
    mf_policy_digest(&p, b);
    ok(strcmp(a, b), "and one bit of one weight (%s)", b);
    mf_policy_release(&p);
    mf_policy_release(&q);
    mf_policy_release(&wide);
}

/* Above 64 MiB a policy goes in parts. */
static void parts(void)
{
    struct mf_policy p, q;
    struct mf_err err = {0};
    void **part;
    size_t *size;
    int n;
    make(&p, 3600, 1, &err); /* 2 x 52 MB in the residual block */
    make(&q, 3600, 2, &err);
    ok(mf_policy_encode(&p, false, &part, &size, &n, &err) == 0 && n == 2, "a big one is two");
    const void *turned[2] = {part[1], part[0]};
    ok(mf_policy_decode(&q, turned, (size_t[]){size[1], size[0]}, 2, &err) == 0 && same_bits(&p, &q),
       "which give the same bits in any order %s", err.text);
    ok(mf_policy_decode(&q, turned, (size_t[]){size[1], size[0] - 1}, 2, &err) < 0, "but not cut: %s", err.text);
    mf_policy_drop(part, size, n);
    mf_policy_release(&p);
    mf_policy_release(&q);
}

int main(void)
{
    static const char *const made[] = {"a", "b", "clone", "good", "varied"};
    if (!mkdtemp(folder))
        return 1;
    saves_and_loads();
    spoiled();
    clones();
    mismatches();
    parts_left();
    frames();
    parts();
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        unlink(in_folder(made[i]));
    ok(rmdir(folder) == 0, "nothing else was written");
    return done();
}
