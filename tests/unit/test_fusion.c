/* A device that takes several calls in one launch (cuda) gives the bits of the calls one by one: values within such a
 * run, too, and gradients.
 */
#include "device_under_test.h"
#include "op_operands.h"

enum { W = 40, FETCHED = 5 };

struct result {
    float *y[FETCHED], *grads;
    size_t floats, n_grads; /* of a y; of all parameters */
};

static void must(int rc, const struct mf_err *err)
{
    if (rc) {
        printf("Bail out! %s\n", err->text);
        exit(1);
    }
}

static struct mf_val normed(struct lab *l, struct mf_val h)
{
    return mf_norm(l->g, h, 0, W, 1, MF_NORM_LAYER, -1, -1, 1e-3f);
}

/* Two sublayers of a transformer's block, a norm of another kind, two products with an activation between them, and a
 * loss. inner: fetches what is within runs. */
static struct result run(const char *fuse, enum mf_precision precision, bool backward, bool inner)
{
    struct mf_engine *e;
    struct mf_err err = {0};
    struct lab l = {.rng = mf_rng_at(8, MF_RNG_TEST, 0, 0, 0)};
    struct result to = {.floats = (size_t)S * R * W};
    setenv("MF_CUDA_FUSE", fuse, 1);
    must(mf_engine_open(&e, device_under_test(), 2, precision, &err), &err);
    l.g = mf_graph_new(&l.ps);
    struct mf_val h = operand(&l, R, W), m = operand(&l, 1, 3 * W), all_m = shared_operand(&l, R, 3 * W);
    struct mf_val weight = input_of(&l, 1, 1, 0.5f, 1.0f);
    struct mf_val x = through(&l, mf_modulate(l.g, normed(&l, h), m, 0), W);
    struct mf_val gated = mf_gate(l.g, h, x, m, 2 * W), unit = normed(&l, gated);
    x = mf_modulate(l.g, unit, all_m, 0);
    struct mf_val last = mf_gate(l.g, gated, through(&l, x, W), all_m, 2 * W);
    last = mf_norm(l.g, last, 0, W, 1, MF_NORM_RMS, matrix(&l, 1, W), -1, 1e-3f);
    int bias = matrix(&l, 1, W), W1 = matrix(&l, W, W);
    struct mf_val hidden = mf_linear(l.g, last, W1, 0, bias, MF_NONE, MF_NONE, MF_ACT_MISH);
    int W2 = matrix(&l, W, W), W3 = matrix(&l, W, W);
    struct mf_val positive = mf_linear(l.g, hidden, W2, 0, -1, MF_NONE, MF_NONE, MF_ACT_RELU);
    struct mf_val before = mf_linear(l.g, positive, W3, 0, bias, MF_NONE, MF_NONE, MF_ACT_NONE);
    struct mf_val summed = mf_sum(l.g, 2, (struct mf_val[]){before, h}, MF_ACT_RELU);
    struct mf_val ahead = through(&l, mf_reshape(l.g, through(&l, summed, W), 1, R * W), 1);
    struct mf_val loss = mf_weigh(l.g, ahead, weight);
    if (backward)
        mf_loss(l.g, loss, 0.5f);
    struct mf_fetch fetch[FETCHED];
    const struct mf_val all[FETCHED] = {last, gated, unit, x, hidden};
    for (int i = 0; i < FETCHED; i++) {
        to.y[i] = calloc(to.floats, sizeof(float));
        fetch[i] = (struct mf_fetch){all[i], to.y[i], R * W};
    }
    mf_params_alloc(&l.ps, &err);
    mf_params_fresh(&l.ps, 3);
    struct mf_batch batch = {
        .n = S, .feed = l.feed, .n_feeds = l.n_feeds, .fetch = fetch, .n_fetches = inner ? FETCHED : 1};
    must(mf_plan_new(&l.plan, e, l.g, &(struct mf_plan_opts){.backward = backward}, &err), &err);
    mf_plan_set(l.plan, l.set[0], l.set_data[0]);
    must(mf_plan_run(l.plan, &batch, &err), &err);
    to.n_grads = backward ? l.ps.size : 0;
    to.grads = calloc(l.ps.size, sizeof(float));
    if (backward)
        memcpy(to.grads, mf_plan_grads(l.plan), l.ps.size * sizeof(float));
    mf_plan_free(l.plan);
    mf_graph_free(l.g);
    for (int i = 0; i < l.n_feeds; i++)
        free((void *)(uintptr_t)l.feed[i].base);
    free(l.set_data[0]);
    mf_params_release(&l.ps);
    mf_engine_close(e);
    return to;
}

static bool same_bits(const float *a, const float *b, size_t n)
{
    return !memcmp(a, b, n * sizeof *a);
}

int main(void)
{
    for (int form = 0; form < 8; form++) {
        bool backward = form % 2, inner = form / 2 % 2;
        enum mf_precision precision = form < 4 ? MF_FP32 : MF_BF16;
        const char *what = inner ? "fetched, too" : "not fetched", *in = form < 4 ? "fp32" : "bf16";
        struct result apart = run("no", precision, backward, inner), together = run("yes", precision, backward, inner);
        for (int i = 0; i < (inner ? FETCHED : 1); i++)
            ok(same_bits(apart.y[i], together.y[i], apart.floats) && apart.y[i][0] != 0.0f,
               "%s, %s, inner values %s: value %d", in, backward ? "with gradients" : "forward alone", what, i);
        if (backward)
            ok(same_bits(apart.grads, together.grads, apart.n_grads), "%s, inner values %s: gradients", in, what);
        for (int i = 0; i < FETCHED; i++)
            free(apart.y[i]), free(together.y[i]);
        free(apart.grads), free(together.grads);
    }
    return done();
}
