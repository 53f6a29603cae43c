/* op_lab.h - every operation recorded in a graph of its own, with a loss: the rows of op_rows.inc. */
#ifndef MF_OP_LAB_H
#define MF_OP_LAB_H

#include "base/layout.h"
#include "flow/ops.h"
#include "op_operands.h"
#include "rl/losses.h"

/* ---- shared values ---- */

static struct mf_val linear(struct lab *l, enum mf_act act)
{
    struct mf_val x = operand(l, R, 19), r1 = operand(l, R, 21), r2 = operand(l, 1, 21);
    return mf_linear(l->g, x, matrix(l, 21, 30), 7, matrix(l, 1, 21), r1, r2, act);
}

static struct mf_val norm(struct lab *l, enum mf_norm how, bool affine)
{
    int W = affine ? matrix(l, 1, 11) : -1, b = affine && how == MF_NORM_LAYER ? matrix(l, 1, 11) : -1;
    struct mf_val x = operand(l, R, 30);
    return mf_add(l->g, mf_norm(l->g, x, 3, 22, 2, how, W, b, 1e-3f), mf_norm(l->g, x, 0, 22, 1, how, -1, -1, 1e-3f));
}

/* Two observations a sample, with a picture of 5 x 7 pixels. */
static struct mf_val picture(struct lab *l, bool u8, int crop)
{
    int scale = mf_param_add(&l->ps, "scale", 1, 3, 1, MF_GROUP_BUFFER, MF_INIT_NORMAL, 0.5f);
    int offset = mf_param_add(&l->ps, "offset", 1, 3, 1, MF_GROUP_BUFFER, MF_INIT_NORMAL, 0.5f);
    struct mf_obs o = {.dim = {5, 7, 3}, .u8 = u8};
    return mf_picture(l->g, input(l, 2, 110), 3, &o, crop, scale, offset);
}

/* Heads of n columns in rows of 2 heads, packed in one operand; two blocks of 5 rows. */
static struct mf_val self_attention(struct lab *l, int n, float drop)
{
    struct mf_val x = operand(l, 10, 6 * n + 1);
    struct mf_attend how = {.heads = 2, .blocks = 2, .dim = 2 * n, .out = 2 * n, .at = {0, 2 * n, 4 * n + 1}};
    how.scale = 0.4f, how.drop = drop, how.layer = 3;
    return mf_attention(l->g, x, x, x, drop > 0.0f ? input(l, 1, 1) : MF_NONE, &how);
}

static struct mf_val reduce(struct lab *l, enum mf_reduce how)
{
    return mf_reduce(l->g, operand(l, R, 12), input(l, 1, 12), how, 3, 2, 1, 0.1f);
}

static struct mf_val ppo_loss(struct lab *l, float dual, float clamp, float aspo)
{
    struct mf_val old = input(l, 1, 6), adv = input(l, 1, 1), w = input_of(l, 1, 6, 0.5f, 1.0f);
    struct mf_val knobs = set(l, 1, 4, (float[]){0.2f, dual, clamp, aspo}), new = operand(l, 1, 6);
    return mf_ppo_loss(l->g, new, old, adv, w, knobs);
}

static struct mf_val value_loss(struct lab *l, float clip, float delta)
{
    struct mf_val v = operand(l, 1, 1), ret = input(l, 1, 1), old = input(l, 1, 1), w = input_of(l, 1, 1, 0.5f, 1.0f);
    return mf_value_loss(l->g, v, ret, old, w, set(l, 1, 4, (float[]){clip, delta, 0.0f, 0.0f}));
}

/* ---- the rows ---- */

#define OP(name, ...)                                                                                                  \
    static struct mf_val op_##name(struct lab *l)                                                                      \
    {                                                                                                                  \
        __VA_ARGS__;                                                                                                   \
    }
#include "op_rows.inc"
#undef OP

#define OP(name, ...) {#name, op_##name},
static const struct {
    const char *name;
    struct mf_val (*record)(struct lab *l);
} ops[] = {
#include "op_rows.inc"
};
#undef OP

static void record(struct lab *l, int op, struct mf_engine *e, int tile, struct mf_err *err)
{
    *l = (struct lab){.rng = mf_rng_at(8, MF_RNG_TEST, (uint32_t)op, 0, 0)};
    l->g = mf_graph_new(&l->ps);
    struct mf_val y = l->y = ops[op].record(l);
    /* A loss with another weight for each element. */
    int n = mf_rows(l->g, y) * mf_cols(l->g, y);
    struct mf_val flat = mf_reshape(l->g, y, 1, n);
    int w = mf_param_add(&l->ps, "loss", 1, n, 2, MF_GROUP_BUFFER, MF_INIT_NORMAL, 1.0f);
    struct mf_val weight = mf_input(l->g, 1, 1);
    l->feed[l->n_feeds++] = (struct mf_feed){weight, l->weight, 1, true};
    for (int s = 0; s < S; s++)
        l->weight[s] = 1.0f;
    l->loss = mf_weigh(l->g, mf_linear(l->g, flat, w, 0, -1, MF_NONE, MF_NONE, MF_ACT_NONE), weight);
    mf_loss(l->g, l->loss, 0.5f);
    mf_params_alloc(&l->ps, err);
    mf_params_fresh(&l->ps, 3);
    mf_plan_new(&l->plan, e, l->g, &(struct mf_plan_opts){.tile = tile, .backward = true}, err);
    for (int i = 0; i < l->n_sets; i++)
        mf_plan_set(l->plan, l->set[i], l->set_data[i]);
}

static void release(struct lab *l)
{
    mf_plan_free(l->plan);
    mf_graph_free(l->g);
    for (int i = 0; i + 1 < l->n_feeds; i++) /* the last is the weight */
        free((void *)(uintptr_t)l->feed[i].base);
    for (int i = 0; i < l->n_sets; i++)
        free(l->set_data[i]);
    mf_params_release(&l->ps);
}

static double run(struct lab *l, size_t samples, const uint32_t *index, float *y)
{
    float loss[S];
    struct mf_err err = {0};
    size_t n = (size_t)(mf_rows(l->g, l->y) * mf_cols(l->g, l->y));
    struct mf_fetch fetch[] = {{l->loss, loss, 1}, {l->y, y, n}};
    struct mf_batch batch = {
        .n = samples, .index = index, .feed = l->feed, .n_feeds = l->n_feeds, .fetch = fetch, .n_fetches = y ? 2 : 1};
    if (mf_plan_run(l->plan, &batch, &err))
        printf("# %s\n", err.text);
    double sum = 0.0;
    for (size_t s = 0; s < samples; s++)
        sum += 0.5 * (double)loss[s];
    return sum;
}

/* The largest difference, relative to the largest of b; of NaN: infinite. */
static inline double apart(const float *a, const float *b, size_t n)
{
    double worst = 0.0, most = 1e-6;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        worst = worse(worst, isnan(d) ? HUGE_VAL : d);
        most = fmax(most, fabs((double)b[i]));
    }
    return worst / most;
}

enum { OPS = sizeof ops / sizeof *ops };

#endif
