/* The optimiser: AdamW as PyTorch's, norms, frozen groups, EMA; the same bits on any number of threads. */
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "run/safetensors.h"
#include "graph/plan.h"
#include "tap.h"

static void as_torch(void)
{
    struct mf_safetensors f;
    struct mf_engine *e;
    struct mf_adam a;
    struct mf_err err = {0};
    struct mf_params ps = {0};
    float grads[5 * 21], want[3][21], g[32] = {0};
    if (mf_safetensors_open(&f, "tests/fixtures/ops.safetensors", &err) ||
        mf_engine_open(&e, "cpu", 2, MF_FP32, &err)) {
        ok(0, "%s", err.text);
        return;
    }
    mf_param_add(&ps, "w", 3, 7, 2, MF_GROUP_POLICY, MF_INIT_CONST, 0.0f);
    mf_params_alloc(&ps, &err);
    mf_adam_init(&a, &ps, &err);
    a.beta2 = 0.95;
    a.weight_decay = 0.1;
    memcpy(ps.value, mf_safetensors_find(&f, "adam.start")->data, sizeof want[0]);
    memcpy(grads, mf_safetensors_find(&f, "adam.grads")->data, sizeof grads);
    memcpy(want[0], mf_safetensors_find(&f, "adam.end")->data, sizeof want[0]);
    memcpy(want[1], mf_safetensors_find(&f, "adam.m")->data, sizeof want[1]);
    memcpy(want[2], mf_safetensors_find(&f, "adam.v")->data, sizeof want[2]);
    for (int i = 0; i < 5; i++) {
        memcpy(g, grads + i * 21, sizeof want[0]);
        mf_adam_step(e, &a, &ps, g, (double[MF_GROUPS]){1e-2}, (double[MF_GROUPS]){i == 3 ? 0.25 : 1.0});
    }
    double worst = 0.0;
    for (int i = 0; i < 21; i++) {
        worst = fmax(worst, fabs((double)ps.value[i] - (double)want[0][i]));
        worst = fmax(worst, fabs((double)a.m[i] - (double)want[1][i]));
        worst = fmax(worst, fabs((double)a.v[i] - (double)want[2][i]));
    }
    ok(worst < 3e-7 && a.step[MF_GROUP_POLICY] == 5, "five steps of AdamW as PyTorch does them");
    mf_adam_release(&a);
    mf_params_release(&ps);
    mf_engine_close(e);
    mf_safetensors_close(&f);
}

enum { BIG = 300 };

static void fill(struct mf_params *ps)
{
    struct mf_err err;
    *ps = (struct mf_params){0};
    mf_param_add(ps, "policy", BIG, BIG, 2, MF_GROUP_POLICY, MF_INIT_NORMAL, 1.0f);
    mf_param_add(ps, "critic", BIG, 3, 2, MF_GROUP_CRITIC, MF_INIT_NORMAL, 1.0f);
    mf_param_add(ps, "frozen", BIG, 5, 2, MF_GROUP_NOISE, MF_INIT_UNIFORM, 0.5f);
    mf_param_add(ps, "buffer", 1, 3, 1, MF_GROUP_BUFFER, MF_INIT_CONST, 2.0f);
    mf_params_alloc(ps, &err);
    mf_params_fresh(ps, 9);
}

/* One step and its norms on so many threads. */
static void step(int threads, struct mf_params *ps, double norm[MF_GROUPS + 1], float *ema)
{
    struct mf_engine *e;
    struct mf_adam a;
    struct mf_err err;
    fill(ps);
    float *grads = calloc(ps->size, sizeof *grads);
    struct mf_rng rng = mf_rng_at(4, MF_RNG_TEST, 0, 0, 0);
    for (int i = 0; i < ps->n; i++)
        mf_rng_normal(&rng, grads + ps->p[i].at, (size_t)ps->p[i].rows * (size_t)ps->p[i].cols);
    mf_engine_open(&e, "cpu", threads, MF_FP32, &err);
    mf_adam_init(&a, ps, &err);
    mf_grad_norms(e, ps, grads, norm);
    memcpy(ema, ps->value, sizeof *ema * ps->size);
    mf_adam_step(e, &a, ps, grads, (double[MF_GROUPS]){1e-2, 1e-3, 0.0, 1.0}, (double[MF_GROUPS]){1, 0.5, 1, 1});
    mf_ema_step(e, ps, MF_GROUP_POLICY, ema, 0.9);
    mf_adam_release(&a);
    mf_engine_close(e);
    free(grads);
}

int main(void)
{
    struct mf_params one, many, fresh;
    double norm[2][MF_GROUPS + 1];
    as_torch();
    fill(&fresh);
    size_t bytes = sizeof(float) * fresh.size;
    float *ema[2] = {malloc(bytes), malloc(bytes)};
    step(1, &one, norm[0], ema[0]);
    step(3, &many, norm[1], ema[1]);
    ok(!memcmp(one.value, many.value, bytes) && !memcmp(ema[0], ema[1], bytes) &&
           !memcmp(norm[0], norm[1], sizeof norm[0]),
       "the same bits on 1 and 3 threads");
    near(norm[0][MF_GROUPS], sqrt(BIG * BIG + BIG * 3 + BIG * 5), 0.02, "the norm of standard normal gradients");
    near(norm[0][MF_GROUPS] * norm[0][MF_GROUPS],
         pow(norm[0][MF_GROUP_POLICY], 2) + pow(norm[0][MF_GROUP_CRITIC], 2) + pow(norm[0][MF_GROUP_NOISE], 2), 1e-12,
         "the norm of all trained groups");
    int frozen = mf_param_find(&one, "frozen"), buffer = mf_param_find(&one, "buffer"),
        w = mf_param_find(&one, "policy");
    ok(!memcmp(one.value + one.p[frozen].at, fresh.value + one.p[frozen].at, sizeof(float) * BIG * 5),
       "rate 0 leaves a group as it is");
    ok(one.value[one.p[buffer].at] == 2.0f, "a buffer is never trained");
    near((double)ema[0][one.p[w].at], 0.9 * (double)fresh.value[0] + 0.1 * (double)one.value[0], 1e-6, "EMA");
    ok(one.version > fresh.version, "a step touches the parameters");
    ok(mf_param_find(&one, "none") == -1 && mf_params_count(&one, MF_GROUP_CRITIC) == BIG * 3,
       "parameters by name and group");
    double mean = 0.0, high = 0.0;
    for (int i = 0; i < BIG * 5; i++) {
        mean += (double)fresh.value[fresh.p[frozen].at + (size_t)i] / (BIG * 5);
        high = fmax(high, fabs((double)fresh.value[fresh.p[frozen].at + (size_t)i]));
    }
    ok(fabs(mean) < 0.03 && high <= 0.5 && high > 0.49, "uniform initial values");
    free(ema[0]), free(ema[1]);
    mf_params_release(&one), mf_params_release(&many), mf_params_release(&fresh);
    return done();
}
