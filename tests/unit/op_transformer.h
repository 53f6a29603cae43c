/* op_transformer.h - the operations that transformers add, as op_lab.h has the others. */
#ifndef MF_OP_TRANSFORMER_H
#define MF_OP_TRANSFORMER_H

#include "op_operands.h"

static struct mf_val op_slice_cols(struct lab *l)
{
    struct mf_val x = operand(l, R, 9);
    return mf_add(l->g, mf_slice_cols(l->g, x, 1, 4), mf_slice_cols(l->g, x, 5, 4));
}

/* Rows 1, 2 and 6 over 12: each row of the less is that of the rows that follow one another. */
static struct mf_val op_spread(struct lab *l)
{
    struct mf_val x = operand(l, 12, 5), y = mf_add(l->g, x, operand(l, 2, 5));
    y = mf_linear(l->g, y, matrix(l, 5, 5), 0, -1, operand(l, 6, 5), shared_operand(l, 3, 5), MF_ACT_NONE);
    return mf_concat(l->g, 3, (struct mf_val[]){y, operand(l, 4, 2), shared_operand(l, 2, 3)});
}

static struct mf_val op_param_value(struct lab *l)
{
    struct mf_val e = mf_param_value(l->g, matrix(l, R, 5));
    return mf_add(l->g, mf_add(l->g, operand(l, R, 5), e), e);
}

static struct mf_val op_pool_max(struct lab *l)
{
    return mf_pool(l->g, operand(l, 6, 5), 2, MF_POOL_MAX);
}
static struct mf_val op_pool_mean(struct lab *l)
{
    return mf_pool(l->g, operand(l, 6, 5), 2, MF_POOL_MEAN);
}

static struct mf_val norm(struct lab *l, enum mf_norm how, bool affine)
{
    int W = affine ? matrix(l, 1, 11) : -1, b = affine && how == MF_NORM_LAYER ? matrix(l, 1, 11) : -1;
    struct mf_val x = operand(l, R, 30);
    return mf_add(l->g, mf_norm(l->g, x, 3, 22, 2, how, W, b, 1e-3f), mf_norm(l->g, x, 0, 22, 1, how, -1, -1, 1e-3f));
}

static struct mf_val op_norm_layer(struct lab *l)
{
    return norm(l, MF_NORM_LAYER, true);
}
static struct mf_val op_norm_plain(struct lab *l)
{
    return norm(l, MF_NORM_LAYER, false);
}
static struct mf_val op_norm_rms(struct lab *l)
{
    return norm(l, MF_NORM_RMS, true);
}
static struct mf_val op_norm_legacy(struct lab *l)
{
    return norm(l, MF_NORM_RMS_LEGACY, true);
}

static struct mf_val op_modulate(struct lab *l)
{
    struct mf_val x = operand(l, 6, 11), m = operand(l, 2, 40), once = shared_operand(l, 2, 22);
    return mf_modulate(l->g, mf_modulate(l->g, x, m, 7), once, 0);
}

static struct mf_val op_gate(struct lab *l)
{
    struct mf_val x = operand(l, 6, 11), m = operand(l, 2, 40);
    return mf_gate(l->g, x, mf_gate(l->g, operand(l, 6, 11), x, m, 3), m, 20);
}

/* Heads of n columns in rows of 2 heads, packed in one operand; two blocks of 5 rows. */
static struct mf_val self_attention(struct lab *l, int n, float drop)
{
    struct mf_val x = operand(l, 10, 6 * n + 1);
    struct mf_attend how = {.heads = 2, .blocks = 2, .dim = 2 * n, .out = 2 * n, .at = {0, 2 * n, 4 * n + 1}};
    how.scale = 0.4f, how.drop = drop, how.layer = 3;
    return mf_attention(l->g, x, x, x, drop > 0.0f ? input(l, 1, 1) : MF_NONE, &how);
}

static struct mf_val op_attention(struct lab *l)
{
    return self_attention(l, 5, 0.0f);
}
static struct mf_val op_attention_wide(struct lab *l)
{
    return self_attention(l, 16, 0.0f);
}
static struct mf_val op_attention_drop(struct lab *l)
{
    return self_attention(l, 5, 0.4f);
}

/* More keys than a chunk, more queries than a vector; keys and values of their own. */
static struct mf_val op_attention_cross(struct lab *l)
{
    struct mf_val q = operand(l, 19, 11), k = operand(l, 70, 9), v = operand(l, 70, 20);
    struct mf_attend how = {.heads = 2, .blocks = 1, .dim = 8, .out = 18, .at = {3, 1, 2}, .scale = 0.3f};
    return mf_attention(l->g, q, k, v, MF_NONE, &how);
}

static struct mf_val op_attention_shared(struct lab *l)
{
    struct mf_val kv = operand(l, 7, 12);
    struct mf_attend how = {.heads = 2, .blocks = 1, .dim = 6, .out = 6, .at = {0, 0, 6}, .scale = 0.5f};
    return mf_attention(l->g, shared_operand(l, 2, 6), kv, kv, MF_NONE, &how);
}

#endif
