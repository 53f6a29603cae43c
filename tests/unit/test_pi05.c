/* pi0.5 against numbers that its published code computed (tests/reference/pi05.py): the prefix, velocities, Euler
 * chains, gradients; the bits; what is refused. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "device_under_test.h"
#include "flow/chain.h"
#include "flow/sampler.h"
#include "graph/plan.h"
#include "nn/pi05.h"
#include "op/ops.h"
#include "pi05.h"

static struct mf_engine *engine;

/* One run of B samples. */
static void run(struct mf_plan *plan, const struct mf_feed *feed, int n_feeds, const struct mf_fetch *fetch, int n)
{
    struct mf_err err;
    must(mf_plan_run(plan, &(struct mf_batch){.n = B, .feed = feed, .n_feeds = n_feeds, .fetch = fetch, .n_fetches = n},
                     &err),
         &err);
}

static struct mf_plan *plan_of(struct mf_graph *g, bool backward)
{
    struct mf_plan *plan;
    struct mf_err err;
    must(mf_plan_new(&plan, engine, g, &(struct mf_plan_opts){.backward = backward}, &err), &err);
    return plan;
}

/* The prefix of one layer: its input is the embeddings. */
static void embeddings(const float *obs)
{
    struct mf_policy_spec spec = pi05_spec();
    spec.net.layers = 1;
    struct mf_policy p = pi05_policy(&spec);
    struct mf_graph *g = mf_graph_new(&p.params);
    struct mf_val o = mf_input(g, 1, O);
    struct mf_share share = mf_net_features(g, &p.spec.net, o, false);
    struct mf_plan *plan = plan_of(g, false);
    float *got = malloc(sizeof *got * B * SLOTS * WIDTH), *pad = pi05_read("prefix/pad", B * SLOTS);
    run(plan, &(struct mf_feed){o, obs, O, false}, 1, &(struct mf_fetch){share.features[0], got, SLOTS * WIDTH}, 1);
    pi05_same("prefix/embeddings", got, B * SLOTS, WIDTH, pad, 2e-5);
    mf_plan_free(plan);
    mf_graph_free(g);
    mf_policy_release(&p);
    free(got), free(pad);
}

static void prefix(struct mf_policy *p, const float *obs)
{
    static float k[2][B * SLOTS * HEAD], v[2][B * SLOTS * HEAD], out[B * SLOTS * WIDTH], value[B];
    const struct mf_net_spec *s = &p->spec.net;
    struct mf_graph *g = mf_graph_new(&p->params);
    struct mf_val o = mf_input(g, 1, O);
    struct mf_share share = mf_net_features(g, s, o, false);
    struct mf_fetch fetch[] = {{share.part[0], k[0], SLOTS * HEAD},
                               {share.part[1], v[0], SLOTS * HEAD},
                               {share.part[2], k[1], SLOTS * HEAD},
                               {share.part[3], v[1], SLOTS * HEAD},
                               {mf_pi05_output(g, s, &share), out, SLOTS * WIDTH},
                               {mf_net_value(g, s, p->spec.n_critic, p->spec.critic, &share), value, 1}};
    struct mf_plan *plan = plan_of(g, false);
    float *pad = pi05_read("prefix/pad", B * SLOTS);
    run(plan, &(struct mf_feed){o, obs, O, false}, 1, fetch, 6);
    for (int l = 0; l < 2; l++) {
        char name[16];
        snprintf(name, sizeof name, "cache/k%d", l);
        pi05_same(name, k[l], B * SLOTS, HEAD, pad, 2e-5);
        snprintf(name, sizeof name, "cache/v%d", l);
        pi05_same(name, v[l], B * SLOTS, HEAD, pad, 2e-5);
    }
    pi05_same("prefix/output", out, B * SLOTS, WIDTH, pad, 2e-5);
    pi05_same("rl/value/valid_only", value, B, 1, NULL, 2e-5);
    mf_plan_free(plan);
    mf_graph_free(g);
    free(pad);
}

/* T times at once: the steps of a sample attend to one prefix, and not to each other. x, got (B, T, D). */
static void velocities(struct mf_policy *p, const float *obs, int T, const float *times, const float *x, float *got)
{
    const struct mf_net_spec *s = &p->spec.net;
    struct mf_graph *g = mf_graph_new(&p->params);
    struct mf_val o = mf_input(g, 1, O), xs = mf_input(g, T, D), t = mf_shared(g, T, 1);
    struct mf_share share = mf_net_features(g, s, o, false), time = s->net->time(g, s, t, MF_NONE);
    struct mf_val v = s->net->velocity(g, s, &share, &time, mf_net_tokens(g, s, &share, &time, xs));
    struct mf_plan *plan = plan_of(g, false);
    const size_t n = (size_t)T * D;
    mf_plan_set(plan, t, times);
    run(plan, (struct mf_feed[]){{o, obs, O, false}, {xs, x, n, false}}, 2, &(struct mf_fetch){v, got, n}, 1);
    mf_plan_free(plan);
    mf_graph_free(g);
}

static void times(struct mf_policy *p, const float *obs)
{
    enum { T = 6 };
    static const char *const words[T] = {"1.0", "0.7", "0.5", "0.25", "0.1", "0.001"};
    static float x[B * T * D], got[B * T * D], one[B * D];
    float *noise = pi05_read("noise", B * D), at[T];
    for (int i = 0; i < T; i++)
        at[i] = strtof(words[i], NULL);
    for (int i = 0; i < B * T; i++)
        memcpy(x + i * D, noise + i / T * D, sizeof *x * D);
    velocities(p, obs, T, at, x, got);
    for (int i = 0; i < T; i++) {
        char name[32];
        for (int b = 0; b < B; b++)
            memcpy(one + b * D, got + (b * T + i) * D, sizeof *one * D);
        snprintf(name, sizeof name, "t=%s/v", words[i]);
        pi05_same(name, one, B, D, NULL, 2e-5);
    }
    free(noise);
}

/* Each step of the published chain; and our own chain, whose times are exact: the published ones are sums in float32,
 * so that 10 and 3 steps end a little elsewhere. */
static void euler(struct mf_policy *p, const float *obs)
{
    static const int steps[] = {10, 4, 3, 2, 1};
    float *noise = pi05_read("noise", B * D);
    for (int i = 0; i < 5; i++) {
        const int K = steps[i];
        struct mf_policy_spec spec = pi05_spec();
        struct mf_sampler *m;
        struct mf_err err;
        float end[B * D], *got = malloc(sizeof *got * B * 10 * D);
        char name[16];
        snprintf(name, sizeof name, "euler%d/x", K);
        float *x = pi05_read(name, (size_t)(B * K * D));
        snprintf(name, sizeof name, "euler%d/t", K);
        float *t = pi05_read(name, (size_t)K);
        velocities(p, obs, K, t, x, got);
        snprintf(name, sizeof name, "euler%d/v", K);
        pi05_same(name, got, (size_t)(B * K), D, NULL, 2e-5);
        spec.K = K;
        struct mf_policy q = pi05_policy(&spec);
        must(mf_sampler_new(&m, engine, &q, true, &err), &err);
        must(mf_sampler_run(m, B, &(struct mf_sample){.obs = obs, .noise = noise, .actions = end}, &err), &err);
        snprintf(name, sizeof name, "euler%d/end", K);
        pi05_same(name, end, B, D, NULL, K == 10 || K == 3 ? 8e-5 : 2e-5);
        mf_sampler_free(m);
        mf_policy_release(&q);
        free(x), free(t), free(got);
    }
    free(noise);
}

/* A picture whose mask is 0 and tokens behind the prompt change no bit, whatever they hold. */
static void masked(struct mf_policy *p, const float *obs)
{
    static float got[2][B * D], other[B * O];
    float *noise = pi05_read("noise", B * D), one = 1;
    memcpy(other, obs, sizeof other);
    for (int b = 0; b < B; b++)
        for (int i = 0; i < I; i++)
            for (int j = 0; other[b * O + I * PICTURE + L + i] == 0 && j < PICTURE; j++)
                other[b * O + i * PICTURE + j] = (float)j;
    velocities(p, obs, 1, &one, noise, got[0]);
    velocities(p, other, 1, &one, noise, got[1]);
    ok(memcmp(obs, other, sizeof other) && !memcmp(got[0], got[1], sizeof got[0]), "nobody reads a masked picture");
    free(noise);
}

/* The last layer's values of S slots, and the velocity at time 1, of one sample. */
static void alone(const struct mf_policy_spec *spec, const float *obs, const float *noise, int S, float *v, float *got)
{
    struct mf_policy p = pi05_policy(spec);
    const struct mf_net_spec *s = &p.spec.net;
    struct mf_graph *g = mf_graph_new(&p.params);
    struct mf_val o = mf_input(g, 1, s->O), x = mf_input(g, 1, D), t = mf_shared(g, 1, 1);
    struct mf_share share = mf_net_features(g, s, o, false), time = s->net->time(g, s, t, MF_NONE);
    struct mf_val y = s->net->velocity(g, s, &share, &time, mf_net_tokens(g, s, &share, &time, x));
    struct mf_plan *plan = plan_of(g, false);
    struct mf_err err;
    const struct mf_feed feed[] = {{o, obs, (size_t)s->O, false}, {x, noise, D, false}};
    const struct mf_fetch fetch[] = {{share.part[3], v, (size_t)S * HEAD}, {y, got, D}};
    mf_plan_set(plan, t, &(float){1});
    must(
        mf_plan_run(plan, &(struct mf_batch){.n = 1, .feed = feed, .n_feeds = 2, .fetch = fetch, .n_fetches = 2}, &err),
        &err);
    mf_plan_free(plan);
    mf_graph_free(g);
    mf_policy_release(&p);
}

/* Slots that are not there are left out: what they hold stays 0, and the bits are those of an observation without them.
 * With the third picture missing and a prompt of `words` in L slots, against two pictures and as many slots. */
static void left_out(const float *obs, int words)
{
    static float long_obs[O], short_obs[O], v[2][SLOTS * HEAD], got[2][D];
    const int there = 2 * P + words;
    struct mf_policy_spec all = pi05_spec(), few = all;
    few.obs = (struct mf_layout){.n = 0};
    for (int i = 0; i < 2; i++)
        mf_layout_add(&few.obs, &all.obs.key[i]);
    mf_layout_add(&few.obs, &(struct mf_obs){.name = MF_OBS_TOKENS, .dim = {words}});
    float *noise = pi05_read("noise", B * D), *mask = long_obs + I * PICTURE + L;
    memcpy(long_obs, obs, sizeof long_obs);
    mask[0] = mask[1] = 1, mask[2] = 0;
    for (int i = 0; i < L; i++)
        long_obs[I * PICTURE + i] = i < words ? (float)(3 + i) : 0;
    memcpy(short_obs, long_obs, sizeof *short_obs * 2 * PICTURE);
    memcpy(short_obs + 2 * PICTURE, long_obs + I * PICTURE, sizeof *short_obs * (size_t)words);
    alone(&all, long_obs, noise, SLOTS, v[0], got[0]);
    alone(&few, short_obs, noise, there, v[1], got[1]);
    const float *pictures = v[0], *hidden = v[0] + 2 * P * HEAD, *text = v[0] + I * P * HEAD,
                *pad = text + words * HEAD;
    int computed = 0;
    for (int i = 0; i < P * HEAD; i++)
        computed += hidden[i] != 0;
    for (int i = 0; i < (L - words) * HEAD; i++)
        computed += pad[i] != 0;
    ok(computed == 0 || strcmp(device_under_test(), "cpu"), "of a prompt of %d, rows of missing slots are not computed",
       words);
    ok(!memcmp(pictures, v[1], sizeof(float) * 2 * P * HEAD) &&
           !memcmp(text, v[1] + 2 * P * HEAD, sizeof(float) * (size_t)words * HEAD) &&
           !memcmp(got[0], got[1], sizeof *got),
       ".. and the others have the bits of an observation without them");
    free(noise);
}

static void gradients(struct mf_policy *p, const float *obs)
{
    static float x[B * D], target[B * D], weight[B], got[B * D], loss[B], env_loss[B];
    const struct mf_net_spec *s = &p->spec.net;
    struct mf_graph *g = mf_graph_new(&p->params);
    struct mf_val o = mf_input(g, 1, O), xs = mf_input(g, 1, D), t = mf_input(g, 1, 1), to = mf_input(g, 1, D),
                  w = mf_input(g, 1, 1);
    struct mf_share share = mf_net_features(g, s, o, false), time = s->net->time(g, s, t, MF_NONE);
    struct mf_val v = s->net->velocity(g, s, &share, &time, mf_net_tokens(g, s, &share, &time, xs));
    struct mf_policy_spec env = p->spec;
    env.action_dim = 3, env.net.action_width = A;
    struct mf_val l = mf_mse(g, v, to, w),
                  of_env = mf_mse(g, mf_chain_executable(g, &env, v), mf_chain_executable(g, &env, to), w);
    mf_loss(g, l, 1);
    struct mf_plan *plan = plan_of(g, true);
    float *noise = pi05_read("noise", B * D), *actions = pi05_read("actions", B * D),
          *times = pi05_read("loss/time", B), *mean = pi05_read("loss/mean", 1),
          *mean_env = pi05_read("loss/mean_env_dims", 1);
    for (int i = 0; i < B * D; i++) {
        x[i] = times[i / D] * noise[i] + (1 - times[i / D]) * actions[i];
        target[i] = noise[i] - actions[i];
    }
    for (int b = 0; b < B; b++)
        weight[b] = 1.f / B;
    run(plan,
        (struct mf_feed[]){
            {o, obs, O, false}, {xs, x, D, false}, {t, times, 1, false}, {to, target, D, false}, {w, weight, 1, false}},
        5, (struct mf_fetch[]){{v, got, D}, {l, loss, 1}, {of_env, env_loss, 1}}, 3);
    pi05_same("loss/v", got, B, D, NULL, 2e-5);
    near((double)loss[0] + (double)loss[1] + (double)loss[2], (double)*mean, 1e-6, "the loss as published");
    near((double)env_loss[0] + (double)env_loss[1] + (double)env_loss[2], (double)*mean_env, 1e-6,
         "the loss over the environment's numbers as published");
    pi05_gradients("grad", &p->params, mf_plan_grads(plan), 85);
    mf_plan_free(plan);
    mf_graph_free(g);
    free(noise), free(actions), free(times), free(mean), free(mean_env);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The published size: names and shapes of all 811 tensors that it reads, by a hash of their list. */
static void outline(void)
{
    enum { LINE = 192, TENSORS = 811 };
    struct mf_policy_spec s = pi05_spec();
    struct mf_policy p;
    struct mf_err err;
    size_t numbers = 0;
    int n = 0;
    s.obs = (struct mf_layout){.n = 0};
    mf_layout_add(&s.obs, &(struct mf_obs){.name = "image", .dim = {224, 224, 3}, .u8 = true});
    mf_layout_add(&s.obs, &(struct mf_obs){.name = "wrist_image", .dim = {224, 224, 3}, .u8 = true});
    mf_layout_add(&s.obs, &(struct mf_obs){.name = MF_OBS_TOKENS, .dim = {200}});
    s.action_dim = 7, s.horizon = 10, s.n_action_steps = 5, s.n_critic = 0;
    s.net = (struct mf_net_spec){.net = s.net.net,
                                 .layers = 18,
                                 .heads = 8,
                                 .width = 2048,
                                 .mlp = 16384,
                                 .head_dim = 256,
                                 .vocabulary = 257152,
                                 .action_width = 32,
                                 .expert_width = 1024,
                                 .expert_mlp = 4096,
                                 .vit_width = 1152,
                                 .vit_heads = 16,
                                 .vit_layers = 27,
                                 .vit_mlp = 4304,
                                 .patch = 14};
    must(mf_policy_outline(&p, &s, &err), &err);
    char *lines = calloc((size_t)p.params.n, LINE), *text = calloc((size_t)p.params.n, LINE), *end = text;
    for (int i = 0; i < p.params.n; i++) {
        const struct mf_param *q = &p.params.p[i];
        const int window = q->window[0] * q->window[1];
        char *line = lines + n * LINE;
        if (!strncmp(q->name, "picture.", 8))
            continue;
        snprintf(line, LINE,
                 q->rank == 1   ? "%s %d"
                 : q->rank == 2 ? "%s %d,%d"
                                : "%s %d,%d,%d,%d",
                 q->name, q->rank == 1 ? q->cols : q->rows, window ? q->cols / window : q->cols, q->window[0],
                 q->window[1]);
        numbers += (size_t)q->rows * (size_t)q->cols;
        n++;
    }
    qsort(lines, (size_t)n, LINE, by_text);
    for (int i = 0; i < n; i++)
        end += sprintf(end, "%s\n", lines + i * LINE);
    ok(n == TENSORS && numbers == 3353433872, "%d tensors of %zu numbers in all", n, numbers);
    ok(mf_params_count(&p.params, MF_GROUP_POLICY) == 430098464, "of which the action expert has 430,098,464");
    ok(mf_text_hash(text) == 0x444976f9a0b6a496u, "their names and shapes are the published ones");
    mf_policy_release(&p);
    free(lines), free(text);
}

static void refusals(void)
{
    struct mf_policy_spec s = pi05_spec();
    s.n_obs_steps = 2;
    refuses(s, "reads one step");
    s = pi05_spec();
    s.net.patch = 15;
    refuses(s, "policy.patch_size=15");
    s = pi05_spec();
    s.net.layers = 47;
    refuses(s, "at most 46 layers");
    s = pi05_spec();
    s.net.expert_width = 33;
    refuses(s, "must be even");
    s = pi05_spec();
    strcpy(s.obs.key[3].name, "words");
    refuses(s, "reads a prompt");
    s = pi05_spec();
    s.obs.key[4].dim[0] = 2;
    refuses(s, "a number for each of 3 pictures");
    s = pi05_spec();
    s.obs.key[1].dim[0] = 14;
    refuses(s, "pictures of one size");
}

int main(void)
{
    struct mf_err err;
    struct mf_policy_spec s = pi05_spec();
    must(mf_engine_open(&engine, device_under_test(), 2, MF_FP32, &err), &err);
    pi05_open();
    struct mf_policy p = pi05_policy(&s);
    float *obs = pi05_observations();
    embeddings(obs);
    prefix(&p, obs);
    times(&p, obs);
    euler(&p, obs);
    masked(&p, obs);
    left_out(obs, 1);
    left_out(obs, L - 1);
    gradients(&p, obs);
    outline();
    refusals();
    free(obs);
    mf_policy_release(&p);
    pi05_close();
    mf_engine_close(engine);
    return done();
}
