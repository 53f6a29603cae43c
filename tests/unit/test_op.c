/* Every operation: its gradient against differences of ref, and the device under test against ref. */
#include "cpu/fast.h"
#include "device_under_test.h"
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
            worst = worse(worst, error_of(g, up, here, down, (double)h));
            most = fmax(most, fabs(g));
        }
    }
    if (!ok(worst <= 4e-3 * most, "%s: gradient as by differences", ops[op].name))
        printf("#   off by %g of %g\n", worst, most);
    free(grad);
    release(&l);
}

static uint32_t hash(uint32_t h, const void *data, size_t bytes) /* FNV-1a */
{
    for (const unsigned char *p = data, *end = p + bytes; p < end; p++)
        h = (h ^ *p) * 16777619u;
    return h;
}

/* Prints a hash of the bits, by which tests/emu/run compares runs. */
static void compare(int op, struct mf_engine *ref, struct mf_engine *other, double bound)
{
    struct lab a, b;
    struct mf_err err = {0};
    record(&a, op, ref, 3, &err);
    record(&b, op, other, 3, &err);
    size_t n = FEW * (size_t)(mf_rows(a.g, a.y) * mf_cols(a.g, a.y));
    float *ya = calloc(n, sizeof *ya), *yb = calloc(n, sizeof *yb);
    run(&a, FEW, NULL, ya);
    run(&b, FEW, NULL, yb);
    double dy = apart(yb, ya, n), dg = apart(mf_plan_grads(b.plan), mf_plan_grads(a.plan), a.ps.size);
    if (!ok(dy <= bound && dg <= 2.0 * bound, "%s: %s as ref", ops[op].name, device_under_test()))
        printf("#   values off by %g, gradients by %g\n", dy, dg);
    printf("# %s: bits %08x\n", ops[op].name,
           hash(hash(2166136261u, yb, sizeof *yb * n), mf_plan_grads(b.plan), sizeof(float) * b.ps.size));
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
    static const char *const precisions[] = {[MF_FP32] = "fp32", [MF_BF16] = "bf16", [MF_TF32] = "tf32"};
    struct mf_engine *ref, *other;
    struct mf_err err = {0};
    if (mf_engine_open(&ref, "ref", 1, MF_FP32, &err)) {
        printf("Bail out! %s\n", err.text);
        return 1;
    }
    for (int op = 0; op < OPS; op++)
        differences(op, ref);
    for (enum mf_precision p = MF_FP32; p <= MF_TF32; p++) {
        err = (struct mf_err){0};
        if (mf_engine_open(&other, device_under_test(), 2, p, &err)) {
            if (p == MF_FP32)
                ok(false, "%s", err.text);
            else
                skip(precisions[p], err.text);
            continue;
        }
        printf("# %s\n", precisions[p]);
        for (int op = 0; op < OPS; op++)
            compare(op, ref, other, precision_bound(p));
        mf_engine_close(other);
    }
    mf_engine_close(ref);
    none_forgotten();
    return done();
}
