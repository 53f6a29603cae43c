/* encoder - encoders of pictures: their features, and the gradient of a loss over these, of a minibatch of 64.
 *
 *   encoder DIR check | serve
 *
 * Reads "forward 0" and "backward 0" (forward and backward), a digit for the encoder, and answers with the seconds of a
 * turn.
 */
#include "bench.h"

#include "graph/plan.h"
#include "nn/encoder.h"
#include "op/ops.h"

enum { B = 64, STATE = 9 };

static const struct {
    const char *name;
    int side;
    struct mf_net_spec sizes;
} encoders[] = {
    {"plain_conv", 128, {.encoder_dim = 256, .pool_map = true}},
    {"vit", 96, {.vit_width = 128, .vit_heads = 4, .vit_layers = 1, .spatial_emb = 128}},
};
enum { ENCODERS = sizeof encoders / sizeof *encoders };

struct bench {
    struct mf_safetensors file;
    struct mf_policy policy;
    struct mf_graph *graph[2]; /* forward; forward and backward */
    struct mf_plan *plan[2];
    struct mf_val obs[2], target, weight, out[2], loss;
    float *rows, *targets, *features, *losses, *weights;
    int which, features_n;
    bool backward;
};

static void load_policy(struct bench *b, int which)
{
    struct mf_err err;
    struct mf_policy_spec s = {.n_obs_steps = 1, .action_dim = 7, .horizon = 4, .n_action_steps = 4, .K = 4};
    s.net = encoders[which].sizes;
    s.net.n_hidden = 1, s.net.hidden[0] = 8, s.net.time_dim = 4;
    mf_layout_add(
        &s.obs, &(struct mf_obs){.name = "image", .dim = {encoders[which].side, encoders[which].side, 3}, .u8 = true});
    mf_layout_add(&s.obs, &(struct mf_obs){.name = "state", .dim = {STATE}});
    bench_must(mf_net_find(&s.net.net, "reflow_mlp", &err), &err);
    bench_must(mf_encoder_find(&s.net.encoder, encoders[which].name, &err), &err);
    bench_must(mf_policy_init(&b->policy, &s, &err), &err);
    mf_policy_fresh(&b->policy, 0);
    struct mf_params *ps = &b->policy.params;
    for (int i = 0; i < ps->n; i++) {
        const struct mf_array *a = mf_safetensors_find(&b->file, ps->p[i].name);
        if (ps->p[i].group != MF_GROUP_ENCODER)
            continue;
        if (!a || a->bytes != (size_t)(ps->p[i].rows * ps->p[i].cols) * sizeof(float))
            bench_must(mf_err_set(&err, MF_EFORMAT, "the peer has no %s of that size", ps->p[i].name), &err);
        memcpy(ps->value + ps->p[i].at, a->data, a->bytes);
    }
    mf_params_touch(ps);
}

/* The mean squared distance of the features to a target. */
static void record(struct bench *b, struct mf_engine *e, int backward)
{
    struct mf_err err;
    const struct mf_net_spec *s = &b->policy.spec.net;
    struct mf_graph *g = b->graph[backward] = mf_graph_new(&b->policy.params);
    b->obs[backward] = mf_input(g, 1, s->O);
    b->out[backward] = mf_net_features(g, s, b->obs[backward], false).features[0];
    b->features_n = mf_cols(g, b->out[backward]);
    if (backward) {
        b->target = mf_input(g, 1, b->features_n);
        b->weight = mf_input(g, 1, 1);
        b->loss = mf_mse(g, b->out[1], b->target, b->weight);
        mf_loss(g, b->loss, 1);
    }
    bench_must(mf_plan_new(&b->plan[backward], e, g, &(struct mf_plan_opts){.backward = backward}, &err), &err);
}

static void open_bench(struct bench *b, int which, struct mf_engine *e, const char *dir)
{
    char path[4096];
    struct mf_err err;
    *b = (struct bench){.which = which};
    snprintf(path, sizeof path, "%s/encoder_%s.safetensors", dir, encoders[which].name);
    bench_must(mf_safetensors_open(&b->file, path, &err), &err);
    load_policy(b, which);
    record(b, e, 0);
    record(b, e, 1);
    const struct mf_layout *l = &b->policy.spec.obs;
    uint8_t *image = bench_rows(&b->file, "image", B);
    float *state = bench_rows(&b->file, "state", B);
    b->rows = mf_xcalloc(B * (size_t)l->dim, sizeof(float));
    for (size_t i = 0; i < B; i++) {
        float *row = b->rows + i * (size_t)l->dim;
        mf_obs_pack(&l->key[0], image + i * (size_t)mf_obs_count(&l->key[0]), row);
        memcpy(row + mf_obs_size(&l->key[0]), state + i * STATE, STATE * sizeof *state);
    }
    free(image), free(state);
    b->targets = bench_rows(&b->file, "target", B);
    b->features = mf_xcalloc(B * (size_t)b->features_n, sizeof(float));
    b->losses = mf_xcalloc(B, sizeof(float));
    b->weights = mf_xcalloc(B, sizeof(float));
    for (int i = 0; i < B; i++)
        b->weights[i] = 1.0f / B;
}

static void turn(void *arg)
{
    struct bench *b = arg;
    struct mf_err err;
    const size_t O = (size_t)b->policy.spec.net.O, F = (size_t)b->features_n;
    const struct mf_feed feed[] = {
        {b->obs[b->backward], b->rows, O, false}, {b->target, b->targets, F, false}, {b->weight, b->weights, 1, false}};
    const struct mf_fetch fetch[] = {
        {b->backward ? b->loss : b->out[0], b->backward ? b->losses : b->features, b->backward ? 1 : F}};
    const struct mf_batch batch = {
        .n = B, .feed = feed, .n_feeds = b->backward ? 3 : 1, .fetch = fetch, .n_fetches = 1};
    bench_must(mf_plan_run(b->plan[b->backward], &batch, &err), &err);
}

static void check(struct bench *b, struct mf_array **all, int *n)
{
    const char *name = encoders[b->which].name;
    char key[MF_NAME_MAX];
    turn(b);
    snprintf(key, sizeof key, "%s/features", name);
    bench_put(all, n, MF_F32, b->features, B * (size_t)b->features_n, key);
    b->backward = true;
    turn(b);
    const float *grads = mf_plan_grads(b->plan[1]);
    for (int i = 0; i < b->policy.params.n; i++) {
        const struct mf_param *p = &b->policy.params.p[i];
        snprintf(key, sizeof key, "%s/%.100s", name, p->name);
        if (p->group == MF_GROUP_ENCODER)
            bench_put(all, n, MF_F32, grads + p->at, (size_t)(p->rows * p->cols), key);
    }
}

static void close_bench(struct bench *b)
{
    for (int i = 0; i < 2; i++) {
        mf_plan_free(b->plan[i]);
        mf_graph_free(b->graph[i]);
    }
    float *const all[] = {b->rows, b->targets, b->features, b->losses, b->weights};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    mf_policy_release(&b->policy);
    mf_safetensors_close(&b->file);
}

int main(int argc, char **argv)
{
    struct bench b[ENCODERS];
    struct mf_array *all = NULL;
    char what[16];
    int n = 0, which;
    if (argc < 3)
        return 2;
    const bool checks = strcmp(argv[2], "check") == 0;
    struct mf_engine *engine = bench_engine(NULL);
    for (int i = 0; i < ENCODERS; i++) {
        open_bench(&b[i], i, engine, argv[1]);
        if (checks)
            check(&b[i], &all, &n);
    }
    if (checks)
        bench_write(all, n, argv[1], "encoder");
    while (!checks && scanf("%15s %d", what, &which) == 2 && which >= 0 && which < ENCODERS) {
        b[which].backward = strcmp(what, "backward") == 0;
        turn(&b[which]);
        printf("%.9g\n", bench_time(turn, &b[which], .5));
        fflush(stdout);
    }
    for (int i = 0; i < ENCODERS; i++)
        close_bench(&b[i]);
    mf_engine_close(engine);
    return 0;
}
