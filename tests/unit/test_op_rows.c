/* Every operation: a row's bits depend on no other row, forward and backward, in every precision that there is. */
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
    mf_engine_close(e);
}

int main(void)
{
    all(MF_FP32, "fp32");
    all(MF_BF16, "bf16");
    all(MF_TF32, "tf32");
    return done();
}
