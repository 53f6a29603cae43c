/* vla - parts of pi0.5: a layer of its language model and of its vision tower as large as published, and the decision
 * of a tiny one.
 *
 *   vla DIR check | serve [fp32|bf16]
 *
 * Reads "gemma 1", "siglip 1", "decide 1" and "decide 8" (environments) and answers with the seconds of a turn. Of the
 * first two a turn is a prefix: of one Gemma layer (the second one's keys and values end it) behind the least of
 * towers, and of one SigLIP layer before the least of Gemmas. Weights are numbers that vla_peer.py makes, too.
 */
#include <math.h>

#include "bench.h"

#include "flow/sampler.h"
#include "graph/plan.h"

enum { ACTION = 7, HORIZON = 4, STEPS = 2, MOST = 8, WORKS = 3 };

static const struct {
    const char *name;
    int side, tokens;
    struct mf_net_spec net;
} sizes[WORKS] = {
    {"gemma",
     224,
     25,
     {.layers = 2,
      .heads = 8,
      .width = 2048,
      .mlp = 16384,
      .head_dim = 256,
      .vocabulary = 64,
      .action_width = 8,
      .expert_width = 8,
      .expert_mlp = 8,
      .vit_width = 16,
      .vit_heads = 1,
      .vit_layers = 1,
      .vit_mlp = 16,
      .patch = 14}},
    {"siglip",
     224,
     1,
     {.layers = 1,
      .heads = 1,
      .width = 16,
      .mlp = 16,
      .head_dim = 16,
      .vocabulary = 64,
      .action_width = 8,
      .expert_width = 8,
      .expert_mlp = 8,
      .vit_width = 1152,
      .vit_heads = 16,
      .vit_layers = 1,
      .vit_mlp = 4304,
      .patch = 14}},
    {"decide",
     32,
     20,
     {.layers = 4,
      .heads = 4,
      .width = 64,
      .mlp = 128,
      .head_dim = 16,
      .vocabulary = 420,
      .action_width = 8,
      .expert_width = 64,
      .expert_mlp = 128,
      .vit_width = 64,
      .vit_heads = 4,
      .vit_layers = 4,
      .vit_mlp = 128,
      .patch = 8}},
};

struct bench {
    const char *name;
    struct mf_policy policy;
    struct mf_graph *graph; /* of a prefix, else NULL: a sampler */
    struct mf_plan *plan;
    struct mf_val obs, out;
    struct mf_sampler *sampler;
    struct mf_sample io;
    float *prefix;
    size_t n_prefix;
    int N;
};

static uint32_t seed_of(const char *name)
{
    uint32_t x = 0;
    for (; *name; name++)
        x = 31 * x + (unsigned char)*name;
    return x;
}

/* In [-1, 1): a hash of the index and the seed. */
static float number(uint32_t seed, uint32_t i)
{
    uint32_t x = seed + i * 2654435761u;
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return (float)((x ^ x >> 16) >> 8) / (1 << 23) - 1;
}

/* Numbers around those of the start; buffers stay there. */
static void fill(const struct mf_params *ps)
{
    for (int i = 0; i < ps->n; i++) {
        const struct mf_param *p = &ps->p[i];
        const uint32_t seed = seed_of(p->name), n = (uint32_t)p->rows * (uint32_t)p->cols;
        const float base = p->init == MF_INIT_CONST ? p->a : 0;
        float scale = p->rows > 1 ? 1.7f / sqrtf((float)p->cols) : .1f;
        scale = p->group == MF_GROUP_BUFFER ? 0 : scale;
        for (uint32_t j = 0; j < n; j++)
            ps->value[p->at + j] = base + scale * number(seed, j);
    }
}

static void open_bench(struct bench *b, int which, struct mf_engine *e)
{
    const int side = sizes[which].side, tokens = sizes[which].tokens;
    struct mf_err err;
    struct mf_policy_spec s = {.n_obs_steps = 1,
                               .action_dim = ACTION,
                               .horizon = HORIZON,
                               .n_action_steps = HORIZON,
                               .K = STEPS,
                               .convention = MF_NOISE1,
                               .noise_method = MF_FLOW_SDE,
                               .objective = MF_CHAIN_MEAN,
                               .net = sizes[which].net};
    *b = (struct bench){.name = sizes[which].name};
    for (int i = 0; i < 2; i++)
        mf_layout_add(&s.obs, &(struct mf_obs){.name = {(char)('a' + i)}, .dim = {side, side, 3}, .u8 = true});
    mf_layout_add(&s.obs, &(struct mf_obs){.name = MF_OBS_TOKENS, .dim = {tokens}});
    bench_must(mf_net_find(&s.net.net, "pi05", &err), &err);
    bench_must(mf_policy_init(&b->policy, &s, &err), &err);
    mf_policy_plain(&b->policy);
    fill(&b->policy.params);
    mf_params_touch(&b->policy.params);
    const size_t O = (size_t)b->policy.spec.net.O, D = (size_t)b->policy.spec.net.D,
                 pixels = 2 * (size_t)(side * side * 3);
    float *obs = mf_xcalloc(MOST * O, sizeof *obs), *noise = mf_xcalloc(MOST * D, sizeof *noise);
    for (size_t n = 0; n < MOST; n++) {
        unsigned char *to = (unsigned char *)(obs + n * O);
        for (size_t i = 0; i < pixels; i++)
            to[i] = (unsigned char)(128 + 127 * number(seed_of("pixels"), (uint32_t)(n * pixels + i)));
        for (int i = 0; i < tokens; i++)
            obs[(n + 1) * O - (size_t)(tokens - i)] = (float)(2 + ((int)n * tokens + i) * 7 % 60);
    }
    for (size_t i = 0; i < MOST * D; i++)
        noise[i] = number(seed_of("noise"), (uint32_t)i);
    b->io = (struct mf_sample){.obs = obs,
                               .noise = noise,
                               .samples = mf_xcalloc(MOST * D, sizeof(float)),
                               .actions = mf_xcalloc(MOST * HORIZON * ACTION, sizeof(float))};
    if (which == WORKS - 1) {
        bench_must(mf_sampler_new(&b->sampler, e, &b->policy, true, &err), &err);
        return;
    }
    const struct mf_net_spec *net = &b->policy.spec.net;
    b->graph = mf_graph_new(&b->policy.params);
    b->obs = mf_input(b->graph, 1, net->O);
    b->out = mf_net_features(b->graph, net, b->obs, false).part[2 * net->layers - 1];
    b->n_prefix = (size_t)(mf_rows(b->graph, b->out) * mf_cols(b->graph, b->out));
    b->prefix = mf_xcalloc(b->n_prefix, sizeof *b->prefix);
    bench_must(mf_plan_new(&b->plan, e, b->graph, &(struct mf_plan_opts){.backward = false}, &err), &err);
}

static void turn(void *arg)
{
    struct bench *b = arg;
    struct mf_err err;
    if (b->sampler) {
        bench_must(mf_sampler_run(b->sampler, b->N, &b->io, &err), &err);
        return;
    }
    const struct mf_feed feed = {b->obs, b->io.obs, (size_t)b->policy.spec.net.O, false};
    const struct mf_fetch fetch = {b->out, b->prefix, b->n_prefix};
    const struct mf_batch batch = {.n = 1, .feed = &feed, .n_feeds = 1, .fetch = &fetch, .n_fetches = 1};
    bench_must(mf_plan_run(b->plan, &batch, &err), &err);
}

static void close_bench(struct bench *b)
{
    if (b->sampler)
        mf_sampler_free(b->sampler);
    else {
        mf_plan_free(b->plan);
        mf_graph_free(b->graph);
    }
    mf_policy_release(&b->policy);
}

int main(int argc, char **argv)
{
    struct bench b[WORKS];
    struct mf_array *all = NULL;
    char what[16];
    int n = 0, N;
    if (argc < 3)
        return 2;
    struct mf_engine *engine = bench_engine(argv[3]);
    for (int i = 0; i < WORKS; i++)
        open_bench(&b[i], i, engine);
    for (int i = 0; i < WORKS && strcmp(argv[2], "check") == 0; i++) {
        b[i].N = MOST;
        turn(&b[i]);
        bench_put(&all, &n, MF_F32, b[i].sampler ? b[i].io.samples : b[i].prefix,
                  b[i].sampler ? MOST * (size_t)b[i].policy.spec.net.D : b[i].n_prefix, b[i].name);
    }
    if (all)
        bench_write(all, n, argv[1], "vla");
    while (!all && scanf("%15s %d", what, &N) == 2)
        for (int i = 0; i < WORKS; i++)
            if (strcmp(what, b[i].name) == 0) {
                b[i].N = N < MOST ? N : MOST;
                turn(&b[i]);
                printf("%.9g\n", bench_time(turn, &b[i], .3));
                fflush(stdout);
            }
    for (int i = 0; i < WORKS; i++)
        close_bench(&b[i]);
    mf_engine_close(engine);
    return 0;
}
