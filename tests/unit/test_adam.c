/* The optimiser: AdamW as PyTorch's, norms, frozen groups, EMA; the same bits on any number of threads. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "run/safetensors.h"
#include "given_grads.h"
#include "graph/plan.h"
#include "tap.h"

/* One step with these gradients, then a copy of the state to the host. */
static int take(struct given *l, struct mf_adam *a, const float *grads, const struct mf_step *step,
                struct mf_verdict *v, struct mf_err *err)
{
    int rc = mf_plan_learn(l->plan, given_run(l, grads), step, a, v, err);
    return rc ? rc : mf_engine_settle(l->engine, l->ps, a, err);
}

static struct mf_engine *open_engine(int threads)
{
    struct mf_engine *e;
    struct mf_err err;
    if (mf_engine_open(&e, "cpu", threads, MF_FP32, &err)) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    return e;
}

static void as_torch(void)
{
    struct mf_safetensors f;
    struct mf_adam a;
    struct mf_verdict v;
    struct mf_err err = {0};
    struct mf_params ps = {0};
    struct given l;
    float grads[5 * 21], want[3][21];
    if (mf_safetensors_open(&f, "tests/fixtures/ops.safetensors", &err)) {
        ok(0, "%s", err.text);
        return;
    }
    mf_param_add(&ps, "w", 3, 7, 2, MF_GROUP_POLICY, MF_INIT_CONST, 0.0f);
    struct mf_engine *e = open_engine(2);
    given_open(&l, e, &ps, 1);
    mf_adam_init(&a, NULL, &ps, &err);
    a.beta2 = 0.95;
    a.weight_decay = 0.1;
    memcpy(ps.value, mf_safetensors_find(&f, "adam.start")->data, sizeof want[0]);
    mf_params_touch(&ps);
    memcpy(grads, mf_safetensors_find(&f, "adam.grads")->data, sizeof grads);
    memcpy(want[0], mf_safetensors_find(&f, "adam.end")->data, sizeof want[0]);
    memcpy(want[1], mf_safetensors_find(&f, "adam.m")->data, sizeof want[1]);
    memcpy(want[2], mf_safetensors_find(&f, "adam.v")->data, sizeof want[2]);
    for (int i = 0; i < 5; i++) {
        double square = 0;
        for (int j = i * 21; j < (i + 1) * 21; j++)
            square += (double)grads[j] * (double)grads[j];
        const struct mf_step step = {.lr = {1e-2}, .max_norm = i == 3 ? 0.25 * sqrt(square) : 0};
        if (take(&l, &a, grads + i * 21, &step, &v, &err))
            ok(0, "%s", err.text);
    }
    double worst = 0.0;
    for (int i = 0; i < 21; i++) {
        worst = worse(worst, fabs((double)ps.value[i] - (double)want[0][i]));
        worst = worse(worst, fabs((double)a.m[i] - (double)want[1][i]));
        worst = worse(worst, fabs((double)a.v[i] - (double)want[2][i]));
    }
    ok(worst < 3e-7 && a.step[MF_GROUP_POLICY] == 5, "five steps of AdamW as PyTorch does them, one clipped");
    mf_adam_release(&a);
    given_close(&l);
    mf_engine_close(e);
    mf_params_release(&ps);
    mf_safetensors_close(&f);
}

enum { BIG = 300 };

static void fill(struct mf_params *ps)
{
    *ps = (struct mf_params){0};
    mf_param_add(ps, "policy", BIG, BIG, 2, MF_GROUP_POLICY, MF_INIT_NORMAL, 1.0f);
    mf_param_add(ps, "critic", BIG, 3, 2, MF_GROUP_CRITIC, MF_INIT_NORMAL, 1.0f);
    mf_param_add(ps, "frozen", BIG, 5, 2, MF_GROUP_NOISE, MF_INIT_UNIFORM, 0.5f);
    mf_param_add(ps, "buffer", 1, 3, 1, MF_GROUP_BUFFER, MF_INIT_CONST, 2.0f);
}

/* One step on so many threads, of standard normal gradients but for the buffer; bad: one of them is not finite. */
static void step(int threads, struct mf_params *ps, struct mf_verdict *v, float *ema, bool bad)
{
    struct given l;
    struct mf_adam a;
    struct mf_err err;
    fill(ps);
    struct mf_engine *e = open_engine(threads);
    given_open(&l, e, ps, 3);
    float *grads = calloc(ps->size, sizeof *grads);
    struct mf_rng rng = mf_rng_at(4, MF_RNG_TEST, 0, 0, 0);
    for (int i = 0; i < 3; i++)
        mf_rng_normal(&rng, grads + ps->p[i].at, (size_t)ps->p[i].rows * (size_t)ps->p[i].cols);
    if (bad)
        grads[17] = INFINITY;
    mf_adam_init(&a, NULL, ps, &err);
    memcpy(ema, ps->value, sizeof *ema * ps->size);
    a.ema = ema;
    const struct mf_step how = {.lr = {[MF_GROUP_POLICY] = 1e-2, [MF_GROUP_CRITIC] = 1e-3},
                                .max_norm = 100,
                                .separate = true,
                                .ema_decay = 0.9,
                                .averaged = 1u << MF_GROUP_POLICY};
    if (take(&l, &a, grads, &how, v, &err))
        ok(0, "%s", err.text);
    mf_adam_release(&a);
    given_close(&l);
    mf_engine_close(e);
    free(grads);
}

int main(void)
{
    struct mf_params one, many, bad, fresh;
    struct mf_verdict v[3];
    as_torch();
    fill(&fresh);
    struct given l;
    struct mf_engine *e = open_engine(1);
    given_open(&l, e, &fresh, 3);
    given_close(&l);
    mf_engine_close(e);
    size_t bytes = sizeof(float) * fresh.size;
    float *ema[2] = {malloc(bytes), malloc(bytes)};
    step(1, &one, &v[0], ema[0], false);
    step(3, &many, &v[1], ema[1], false);
    ok(!memcmp(one.value, many.value, bytes) && !memcmp(ema[0], ema[1], bytes) && !memcmp(&v[0], &v[1], sizeof v[0]),
       "the same bits on 1 and 3 threads");
    near(v[0].total, sqrt(BIG * BIG + BIG * 3 + BIG * 5), 0.02, "the norm of standard normal gradients");
    near(v[0].total * v[0].total,
         pow(v[0].norm[MF_GROUP_POLICY], 2) + pow(v[0].norm[MF_GROUP_CRITIC], 2) + pow(v[0].norm[MF_GROUP_NOISE], 2),
         1e-12, "the norm of all trained groups");
    ok(v[0].norm[MF_GROUP_POLICY] > 100 && v[0].finite && v[0].stepped, "a step that is clipped");
    int frozen = mf_param_find(&one, "frozen"), buffer = mf_param_find(&one, "buffer"),
        w = mf_param_find(&one, "policy");
    ok(!memcmp(one.value + one.p[frozen].at, fresh.value + one.p[frozen].at, sizeof(float) * BIG * 5),
       "rate 0 leaves a group as it is");
    ok(one.value[one.p[buffer].at] == 2.0f, "a buffer is never trained");
    near((double)ema[0][one.p[w].at], 0.9 * (double)fresh.value[0] + 0.1 * (double)one.value[0], 1e-6, "EMA");
    ok(one.version > fresh.version, "a step touches the parameters");
    step(2, &bad, &v[2], ema[1], true);
    ok(!v[2].finite && !v[2].stepped && !memcmp(bad.value, fresh.value, bytes) && !memcmp(ema[1], fresh.value, bytes),
       "a gradient that is not finite takes no step");
    ok(mf_param_find(&one, "none") == -1 && mf_params_count(&one, MF_GROUP_CRITIC) == BIG * 3,
       "parameters by name and group");
    double mean = 0.0, high = 0.0;
    for (int i = 0; i < BIG * 5; i++) {
        mean += (double)fresh.value[fresh.p[frozen].at + (size_t)i] / (BIG * 5);
        high = fmax(high, fabs((double)fresh.value[fresh.p[frozen].at + (size_t)i]));
    }
    ok(fabs(mean) < 0.03 && high <= 0.5 && high > 0.49, "uniform initial values");
    free(ema[0]), free(ema[1]);
    mf_params_release(&one), mf_params_release(&many), mf_params_release(&bad);
    mf_params_release(&fresh);
    return done();
}
