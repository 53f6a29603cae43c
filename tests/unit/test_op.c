/* Every operation: its gradient against differences of ref, and cpu against ref. */
#include "cpu/fast.h"
#include "op_lab.h"
#include "op_seen.h"

/* Of a gradient from the differences to either side: a step may cross a kink, as a clip has, on one side of it. */
static double error_of(double g, double up, double here, double down, double h)
{
    return fmin(fabs((up - down) / (2 * h) - g), fmin(fabs((up - here) / h - g), fabs((here - down) / h - g)));
}

/* The largest error over all weights, relative to the largest gradient. */
static void differences(int op, struct mf_engine *ref)
{
    struct lab l;
    struct mf_err err = {0};
    record(&l, op, ref, 3, &err);
    const double here = run(&l, FEW, NULL, NULL);
    float *grad = malloc(sizeof(float) * l.ps.size);
    memcpy(grad, mf_plan_grads(l.plan), sizeof(float) * l.ps.size);
    double worst = 0.0, most = 1e-3;
    for (int i = 0; i < l.ps.n; i++) {
        const struct mf_param *p = &l.ps.p[i];
        for (int j = 0; p->group != MF_GROUP_BUFFER && j < p->rows * p->cols; j += 1 + p->rows * p->cols / 40) {
            float *w = &l.ps.value[p->at + (size_t)j], was = *w, h = 1e-3f;
            *w = was + h;
            mf_params_touch(&l.ps);
            double up = run(&l, FEW, NULL, NULL);
            *w = was - h;
            mf_params_touch(&l.ps);
            double down = run(&l, FEW, NULL, NULL), g = (double)grad[p->at + (size_t)j];
            *w = was;
            worst = fmax(worst, error_of(g, up, here, down, (double)h));
            most = fmax(most, fabs(g));
        }
    }
    if (!ok(worst <= 4e-3 * most, "%s: gradient as by differences", ops[op].name))
        printf("#   off by %g of %g\n", worst, most);
    free(grad);
    release(&l);
}

static double apart(const float *a, const float *b, size_t n)
{
    double worst = 0.0, most = 1e-6;
    for (size_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
        most = fmax(most, fabs((double)b[i]));
    }
    return worst / most;
}

static void compare(int op, struct mf_engine *ref, struct mf_engine *cpu, double bound)
{
    struct lab a, b;
    struct mf_err err = {0};
    record(&a, op, ref, 3, &err);
    record(&b, op, cpu, 3, &err);
    size_t n = FEW * (size_t)(mf_rows(a.g, a.y) * mf_cols(a.g, a.y));
    float *ya = calloc(n, sizeof *ya), *yb = calloc(n, sizeof *yb);
    run(&a, FEW, NULL, ya);
    run(&b, FEW, NULL, yb);
    double dy = apart(yb, ya, n), dg = apart(mf_plan_grads(b.plan), mf_plan_grads(a.plan), a.ps.size);
    if (!ok(dy <= bound && dg <= 2.0 * bound, "%s: cpu as ref", ops[op].name))
        printf("#   values off by %g, gradients by %g\n", dy, dg);
    free(ya);
    free(yb);
    release(&a);
    release(&b);
}

/* An operation without a row is not tested; a fast form without an operation of its name never runs. */
static void none_forgotten(void)
{
    struct seen s = seen_new();
    struct mf_engine *ref;
    struct mf_err err = {0};
    mf_engine_open(&ref, "ref", 1, MF_FP32, &err);
    for (int op = 0; op < OPS; op++) {
        struct lab l;
        record(&l, op, ref, 3, &err);
        see(&s, l.g, l.y);
        release(&l);
    }
    mf_engine_close(ref);
    for (const struct mf_fast *const *f = mf_fasts; *f; f++)
        ok(op_named(&s, (*f)->name) >= 0, "%s, a fast form, has an operation", (*f)->name);
    all_seen(&s);
}

int main(void)
{
    struct mf_engine *ref, *cpu, *bf16;
    struct mf_err err = {0};
    if (mf_engine_open(&ref, "ref", 1, MF_FP32, &err) || mf_engine_open(&cpu, "cpu", 2, MF_FP32, &err)) {
        printf("Bail out! %s\n", err.text);
        return 1;
    }
    for (int op = 0; op < OPS; op++) {
        differences(op, ref);
        compare(op, ref, cpu, 2e-6);
    }
    if (mf_engine_open(&bf16, "cpu", 2, MF_BF16, &err) == 0) {
        for (int op = 0; op < OPS; op++)
            compare(op, ref, bf16, 5e-2);
        mf_engine_close(bf16);
    } else {
        skip("bf16", err.text);
    }
    mf_engine_close(ref);
    mf_engine_close(cpu);
    none_forgotten();
    return done();
}
