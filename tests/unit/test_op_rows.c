/* Every operation: a row's bits depend on no other row, forward and backward, in every precision that there is; of
 * attention, not on hidden keys. */
#include "device_under_test.h"
#include "op_lab.h"

/* However many rows run beside it, a row comes out the same. */
static void rows_apart(int op, struct mf_engine *e)
{
    struct lab l;
    struct mf_err err = {0};
    record(&l, op, e, S, &err);
    size_t n = (size_t)(mf_rows(l.g, l.y) * mf_cols(l.g, l.y)), wrong = 0;
    float *all = calloc(S * n, sizeof *all), *some = calloc(S * n, sizeof *some);
    run(&l, S, NULL, all);
    for (size_t M = 1; M < (few_cases() ? S / 4 : S); M += few_cases() ? M / 2 + 1 : M < 40 ? 1 : 13) {
        uint32_t index[S]; /* the last M, so that each also moves within the tile */
        for (size_t i = 0; i < M; i++)
            index[i] = (uint32_t)(S - M + i);
        run(&l, M, index, some);
        wrong += memcmp(some, all + (S - M) * n, sizeof *all * M * n) != 0;
    }
    ok(wrong == 0, "%s: a row's bits depend on no other row", ops[op].name);
    free(all);
    free(some);
    release(&l);
}

/* Beside rows of weight 0 that hold NaN, a row's gradient has the bits that it has alone. */
static void masked(int op, struct mf_engine *e)
{
    struct lab l;
    struct mf_err err = {0};
    record(&l, op, e, 16, &err);
    for (int i = 0; i + 1 < l.n_feeds; i++)
        for (size_t j = 0; j < l.feed[i].stride; j++)
            ((float *)(uintptr_t)l.feed[i].base)[(S - 1) * l.feed[i].stride + j] = NAN;
    size_t bytes = sizeof(float) * l.ps.size, wrong = 0;
    float *alone = malloc(bytes);
    for (uint32_t at = 0; at < 41; at += few_cases() ? 13 : 5) {
        run(&l, 1, &at, NULL);
        memcpy(alone, mf_plan_grads(l.plan), bytes);
        uint32_t index[41];
        for (uint32_t i = 0; i < 41; i++) {
            index[i] = i == at ? at : S - 1;
            l.weight[i] = i == at ? 1.0f : 0.0f;
        }
        run(&l, 41, index, NULL);
        wrong += memcmp(alone, mf_plan_grads(l.plan), bytes) != 0;
        l.weight[0] = 1.0f;
    }
    ok(wrong == 0, "%s: rows of weight 0 change no bit of a gradient", ops[op].name);
    free(alone);
    release(&l);
}

enum { KEYS = 70, N = 3 }; /* of some attention whose keys are hidden in part; samples */

/* Keys and values are the last inputs added, so that no gradient meets what they hold. */
static struct mf_val beside(struct lab *l, int cols, float **data)
{
    struct mf_val own = operand(l, KEYS, cols), more = input(l, KEYS, cols);
    *data = (float *)(uintptr_t)l->feed[l->n_feeds - 1].base;
    return mf_add(l->g, own, more);
}

static bool hidden(int sample, int key)
{
    return (key + sample) % 3 == 0 || (sample == 2 && key >= 40);
}

static void fill(float *x, int cols, float with)
{
    for (int s = 0; s < N; s++)
        for (int j = 0; j < KEYS; j++)
            for (int d = 0; hidden(s, j) && d < cols; d++)
                x[(s * KEYS + j) * cols + d] = with;
}

static void hidden_keys(struct mf_engine *e, const char *name, int dim, int out)
{
    struct lab l = {.rng = mf_rng_at(8, MF_RNG_TEST, (uint32_t)dim, 0, 0)};
    struct mf_err err = {0};
    float *k, *v, *at, with[] = {1, NAN, INFINITY, -3e38f};
    l.g = mf_graph_new(&l.ps);
    struct mf_val q = operand(&l, 19, 2 * dim);
    struct mf_keys keys = {.k = beside(&l, 2 * dim, &k)}; /* one after the other, as they draw */
    keys.v = beside(&l, 2 * out, &v);
    keys.mask = input(&l, KEYS, 1);
    at = (float *)(uintptr_t)l.feed[l.n_feeds - 1].base;
    for (int i = 0; i < N * KEYS; i++)
        at[i] = !hidden(i / KEYS, i % KEYS);
    const struct mf_attend how = {.heads = 2, .blocks = 1, .dim = 2 * dim, .out = 2 * out, .scale = .3f};
    l.y = mf_attention_to(l.g, q, &keys, &how);
    const size_t n = (size_t)(19 * 2 * out);
    mf_loss(l.g, mf_reshape(l.g, mf_slice_cols(l.g, mf_reshape(l.g, l.y, 1, (int)n), 5, 1), 1, 1), 8);
    mf_params_alloc(&l.ps, &err);
    mf_params_fresh(&l.ps, 3);
    mf_plan_new(&l.plan, e, l.g, &(struct mf_plan_opts){.backward = true}, &err);
    float *y[2] = {calloc(N * n, sizeof **y), calloc(N * n, sizeof **y)}, *grads = calloc(l.ps.size, sizeof *grads);
    bool same = true;
    for (size_t i = 0; i < sizeof with / sizeof *with; i++) {
        fill(k, 2 * dim, with[i]);
        fill(v, 2 * out, with[i]);
        struct mf_fetch fetch = {l.y, y[i > 0], n};
        const struct mf_batch batch = {.n = N, .feed = l.feed, .n_feeds = l.n_feeds, .fetch = &fetch, .n_fetches = 1};
        same = mf_plan_run(l.plan, &batch, &err) == 0 && same;
        if (i == 0)
            memcpy(grads, mf_plan_grads(l.plan), l.ps.size * sizeof *grads);
        same = same && (i == 0 || !memcmp(y[0], y[1], N * n * sizeof **y)) &&
               !memcmp(grads, mf_plan_grads(l.plan), l.ps.size * sizeof *grads);
    }
    bool any = false;
    for (size_t i = 0; i < l.ps.size; i++)
        any = any || grads[i] != 0;
    ok(same && any, "%s: what hidden keys hold changes no bit, of heads of %d and %d columns", name, dim, out);
    free(y[0]), free(y[1]), free(grads);
    release(&l);
    free(at);
}

static void all(enum mf_precision precision, const char *name)
{
    struct mf_engine *e;
    struct mf_err err = {0};
    if (mf_engine_open(&e, device_under_test(), 2, precision, &err)) {
        skip(name, err.text);
        return;
    }
    for (int op = 0; op < OPS; op++) {
        if (few_cases() && precision != MF_FP32 && op % 4 != (int)precision)
            continue;
        rows_apart(op, e);
        masked(op, e);
    }
    hidden_keys(e, name, 8, 9);
    hidden_keys(e, name, 16, 16);
    mf_engine_close(e);
}

int main(void)
{
    all(MF_FP32, "fp32");
    all(MF_BF16, "bf16");
    all(MF_TF32, "tf32");
    return done();
}
