/* ditx - ManiFlow's transformer of 4 layers and 256 columns behind its encoder of 128 or 1024 points: PPO's update of a
 * minibatch, and the sampling of chains.
 *
 *   ditx DIR check | serve [fp32|tf32|bf16]
 *
 * Reads "update 128" (32 decisions), "update 1024" (8), "sample1024 8" (environments) and answers with the seconds of
 * a turn.
 */
#include "round.h"

#include "flow/sampler.h"
#include "rl/minibatch.h"

enum { H = 16, A = 10, K = 4, S = 9, C = 6, MOST = 8 };

static const int sizes[2] = {128, 1024}, batches[2] = {32, 8};

struct bench { /* of one number of points */
    struct mf_safetensors file;
    struct mf_policy policy;
    struct mf_ppo *ppo;
    struct mf_rows rows;
    struct mf_sampler *sampler;
    struct mf_sample io;
    int points, batch, N;
};

static void load_policy(struct bench *b)
{
    struct mf_err err;
    struct mf_policy_spec s = {.n_obs_steps = 1,
                               .action_dim = A,
                               .horizon = H,
                               .n_action_steps = 8,
                               .K = K,
                               .convention = MF_NOISE1,
                               .noise_method = MF_FLOW_SDE,
                               .objective = MF_CHAIN_MEAN,
                               .net = {.layers = 4,
                                       .heads = 8,
                                       .width = 256,
                                       .encoder_dim = 64,
                                       .time_dim = 64,
                                       .qkv_bias = true,
                                       .qk_norm = true,
                                       .pointwise = true,
                                       .color = true},
                               .n_critic = 2,
                               .critic = {256, 128}};
    mf_layout_add(&s.obs, &(struct mf_obs){.name = "points", .dim = {b->points, C}});
    mf_layout_add(&s.obs, &(struct mf_obs){.name = "state", .dim = {S}});
    bench_must(mf_net_find(&s.net.net, "ditx", &err), &err);
    bench_must(mf_policy_init(&b->policy, &s, &err), &err);
    mf_policy_fresh(&b->policy, 0);
    mf_policy_set_noise(&b->policy, 0.5, 0.5);
    struct mf_params *ps = &b->policy.params;
    for (int i = 0; i < ps->n; i++) {
        const struct mf_array *a = mf_safetensors_find(&b->file, ps->p[i].name);
        if (!a || a->bytes != (size_t)(ps->p[i].rows * ps->p[i].cols) * sizeof(float))
            bench_must(mf_err_set(&err, MF_EFORMAT, "the peer has no %s of that size", ps->p[i].name), &err);
        memcpy(ps->value + ps->p[i].at, a->data, a->bytes);
    }
    mf_params_touch(ps);
}

/* (rows, O): points, then state. */
static float *observations(const struct bench *b, size_t rows)
{
    size_t P = (size_t)(b->points * C), O = P + S;
    float *points = bench_rows(&b->file, "points", rows), *state = bench_rows(&b->file, "state", rows);
    float *obs = mf_xcalloc(rows * O, sizeof *obs);
    for (size_t i = 0; i < rows; i++) {
        memcpy(obs + i * O, points + i * P, P * sizeof *obs);
        memcpy(obs + i * O + P, state + i * S, S * sizeof *obs);
    }
    free(points), free(state);
    return obs;
}

static void refill(struct bench *b, const char *old)
{
    mf_rows_release(&b->rows);
    bench_round(&b->rows, &b->policy, &b->file, (size_t)b->batch, observations(b, (size_t)b->batch), old);
}

static void open_bench(struct bench *b, int which, struct mf_engine *e, const char *dir, const char *old, double lr)
{
    char path[4096];
    struct mf_err err;
    *b = (struct bench){.points = sizes[which], .batch = batches[which]};
    snprintf(path, sizeof path, "%s/ditx%d.safetensors", dir, b->points);
    bench_must(mf_safetensors_open(&b->file, path, &err), &err);
    load_policy(b);
    refill(b, old);
    struct mf_ppo_opts o = {.seed = 1,
                            .total_timesteps = 1,
                            .num_epochs = 1,
                            .batch_size = b->batch,
                            .repeat_samples = 1,
                            .clip_range = .2,
                            .value_coef = .5,
                            .learning_rate = lr,
                            .critic_learning_rate = lr,
                            .max_grad_norm = lr < 1e-20 ? 0 : .5,
                            .normalize_over = MF_OVER_MINIBATCH,
                            .normalize_advantages = true};
    bench_must(mf_ppo_new(&b->ppo, e, &b->policy, &o, &err), &err);
    bench_must(mf_sampler_new(&b->sampler, e, &b->policy, false, &err), &err);
    int32_t *inds = mf_xcalloc(MOST * K, sizeof *inds);
    for (int i = 0; i < MOST * K; i++)
        inds[i] = i % K;
    b->io = (struct mf_sample){.obs = observations(b, MOST),
                               .noise = bench_rows(&b->file, "noise", MOST),
                               .eps = bench_rows(&b->file, "eps", MOST),
                               .inds = inds,
                               .chains = mf_xcalloc(MOST * (K + 1) * H * A, sizeof(float)),
                               .logprobs = mf_xcalloc(MOST, sizeof(float)),
                               .values = mf_xcalloc(MOST, sizeof(float)),
                               .actions = mf_xcalloc(MOST * H * A, sizeof(float))};
}

static int64_t update(void *arg)
{
    struct bench *b = arg;
    struct mf_err err;
    struct mf_ppo_stats st;
    bench_must(mf_ppo_update(b->ppo, &b->rows, &st, &err), &err);
    return 1;
}

static void sample(void *arg)
{
    struct bench *b = arg;
    struct mf_err err;
    bench_must(mf_sampler_run(b->sampler, b->N, &b->io, &err), &err);
}

/* A first step's moment is a tenth of the gradient. */
static void check(struct bench *b, struct mf_array **all, int *n)
{
    char name[MF_NAME_MAX + 32];
    uint32_t *rows = mf_xcalloc((size_t)b->batch, sizeof *rows);
    for (int i = 0; i < b->batch; i++)
        rows[i] = (uint32_t)i;
    snprintf(name, sizeof name, "rows%d", b->points);
    bench_put(all, n, MF_U32, rows, (size_t)b->batch, name);
    free(rows);
    for (b->N = 1; b->N <= MOST; b->N += 7) {
        size_t N = (size_t)b->N;
        sample(b);
        snprintf(name, sizeof name, "chains%dx%d", b->points, b->N);
        bench_put(all, n, MF_F32, b->io.chains, N * (K + 1) * H * A, name);
        snprintf(name, sizeof name, "logprobs%dx%d", b->points, b->N);
        bench_put(all, n, MF_F32, b->io.logprobs, N, name);
        snprintf(name, sizeof name, "values%dx%d", b->points, b->N);
        bench_put(all, n, MF_F32, b->io.values, N, name);
    }
    update(b);
    for (int i = 0; i < b->policy.params.n; i++) {
        const struct mf_param *q = &b->policy.params.p[i];
        float *m = mf_ppo_optimizer(b->ppo)->adam.m + q->at;
        for (int j = 0; j < q->rows * q->cols; j++)
            m[j] *= 10;
        snprintf(name, sizeof name, "grad%d/%s", b->points, q->name);
        bench_put(all, n, MF_F32, m, (size_t)(q->rows * q->cols), name);
    }
}

int main(int argc, char **argv)
{
    struct bench b[2];
    struct mf_array *all = NULL;
    char what[16];
    int n = 0, size;
    if (argc < 3)
        return 2;
    bool checks = strcmp(argv[2], "check") == 0;
    struct mf_engine *engine = bench_engine(argv[3]);
    for (int i = 0; i < 2; i++) {
        open_bench(&b[i], i, engine, argv[1], checks ? "moved" : "logprobs", checks ? 1e-30 : 1e-12);
        if (checks)
            check(&b[i], &all, &n);
    }
    if (checks)
        bench_write(all, n, argv[1], "ditx");
    while (!checks && scanf("%15s %d", what, &size) == 2) {
        struct bench *of = &b[strcmp(what, "update") == 0 ? size == 1024 : strcmp(what, "sample1024") == 0];
        of->N = size < MOST ? size : MOST;
        if (strcmp(what, "update") == 0) {
            update(of);
            bench_turns(update, of);
        } else {
            sample(of);
            printf("%.9g\n", bench_time(sample, of, .5));
        }
        fflush(stdout);
    }
    for (int i = 0; i < 2; i++) {
        mf_sampler_free(b[i].sampler);
        mf_ppo_free(b[i].ppo);
        mf_rows_release(&b[i].rows);
        mf_policy_release(&b[i].policy);
        mf_safetensors_close(&b[i].file);
    }
    mf_engine_close(engine);
    return 0;
}
