/* op_lab.h - every operation recorded in a graph of its own, with a loss; for test_op.c and test_op_rows.c. */
#ifndef MF_OP_LAB_H
#define MF_OP_LAB_H

#include "flow/ops.h"
#include "op_convolution.h"
#include "op_transformer.h"
#include "rl/losses.h"

/* ---- one function per operation: record it, return its value ---- */

static struct mf_val op_linear(struct lab *l)
{
    return linear(l, MF_ACT_NONE);
}
static struct mf_val op_linear_relu(struct lab *l)
{
    return linear(l, MF_ACT_RELU);
}
static struct mf_val op_linear_mish(struct lab *l)
{
    return linear(l, MF_ACT_MISH);
}
static struct mf_val op_linear_tanh(struct lab *l)
{
    return linear(l, MF_ACT_TANH);
}

static struct mf_val op_linear_silu(struct lab *l)
{
    return linear(l, MF_ACT_SILU);
}
static struct mf_val op_linear_gelu(struct lab *l)
{
    return linear(l, MF_ACT_GELU);
}

static struct mf_val op_linear_self(struct lab *l)
{
    struct mf_val x = operand(l, R, 17);
    return mf_linear(l->g, x, matrix(l, 17, 17), 0, -1, x, shared_operand(l, R, 17), MF_ACT_MISH);
}

static struct mf_val op_linear_shared(struct lab *l)
{
    return mf_linear(l->g, shared_operand(l, R, 6), matrix(l, 9, 6), 0, matrix(l, 1, 9), operand(l, 1, 9), MF_NONE,
                     MF_ACT_TANH);
}

static struct mf_val op_activate(struct lab *l)
{
    return mf_activate(l->g, operand(l, R, 13), MF_ACT_MISH);
}

static struct mf_val op_add(struct lab *l)
{
    struct mf_val a = operand(l, R, 11);
    return mf_add(l->g, mf_add(l->g, a, operand(l, 1, 11)), mf_add(l->g, a, shared_operand(l, R, 11)));
}

static struct mf_val op_concat(struct lab *l)
{
    struct mf_val a = operand(l, R, 5), x[] = {a, operand(l, 1, 3), shared_operand(l, R, 4), a};
    return mf_concat(l->g, 4, x);
}

static struct mf_val op_stack(struct lab *l)
{
    struct mf_val a = operand(l, R, 5), x[] = {a, operand(l, 1, 5), a, shared_operand(l, 2, 5)};
    return mf_stack(l->g, 4, x);
}

static struct mf_val op_slice_rows(struct lab *l)
{
    struct mf_val x = operand(l, R, 5);
    return mf_add(l->g, mf_slice_rows(l->g, x, 1, 2), mf_slice_rows(l->g, x, 0, 2));
}

static struct mf_val op_reshape(struct lab *l)
{
    struct mf_val x = operand(l, 4, 6);
    return mf_add(l->g, mf_reshape(l->g, x, 3, 8), mf_reshape(l->g, x, 3, 8));
}

static struct mf_val op_weigh(struct lab *l)
{
    return mf_weigh(l->g, operand(l, R, 4), input(l, 1, 1));
}

static struct mf_val op_sinusoid(struct lab *l)
{
    return mf_linear(l->g, mf_sinusoid(l->g, input(l, R, 1), 1, 16), matrix(l, 5, 16), 0, -1, MF_NONE, MF_NONE,
                     MF_ACT_NONE);
}

static struct mf_val op_flow_mean(struct lab *l)
{
    return mf_flow_mean(l->g, operand(l, R, 12), operand(l, R, 12), input(l, R, 3), 1.5f);
}

static struct mf_val op_noise_std(struct lab *l)
{
    return mf_noise_std(l->g, operand(l, R, 12), set(l, 1, 2, (float[]){-3.0f, -1.0f}));
}

static struct mf_val op_logprob_std(struct lab *l)
{
    struct mf_val std = mf_noise_std(l->g, operand(l, R, 12), set(l, 1, 2, (float[]){-1.0f, 0.5f}));
    return mf_flow_logprob(l->g, operand(l, R, 12), operand(l, R, 12), std, input_of(l, R, 3, 0.7f, 0.3f));
}

static struct mf_val op_logprob_coef(struct lab *l)
{
    return mf_flow_logprob(l->g, input(l, R, 12), operand(l, R, 12), MF_NONE, input_of(l, R, 3, 0.7f, 0.3f));
}

static struct mf_val op_entropy(struct lab *l)
{
    struct mf_val u = operand(l, R, 12), b = set(l, 1, 2, (float[]){-3.0f, -1.0f});
    return mf_flow_entropy(l->g, mf_noise_std(l->g, u, b), 0.1f);
}

static struct mf_val reduce(struct lab *l, enum mf_reduce how)
{
    return mf_reduce(l->g, operand(l, R, 12), input(l, 1, 12), how, 3, 2, 1, 0.1f);
}

static struct mf_val op_reduce_all(struct lab *l)
{
    return reduce(l, MF_REDUCE_ALL);
}
static struct mf_val op_reduce_token(struct lab *l)
{
    return reduce(l, MF_REDUCE_TOKEN);
}
static struct mf_val op_reduce_action(struct lab *l)
{
    return reduce(l, MF_REDUCE_ACTION);
}
static struct mf_val op_reduce_chunk(struct lab *l)
{
    return reduce(l, MF_REDUCE_CHUNK);
}

static struct mf_val op_ppo_loss(struct lab *l)
{
    struct mf_val old = input(l, 1, 6), adv = input(l, 1, 1), w = input_of(l, 1, 6, 0.5f, 1.0f);
    struct mf_val knobs = set(l, 1, 4, (float[]){0.2f, 0.0f, 0.0f, 0.0f}), new = operand(l, 1, 6);
    return mf_ppo_loss(l->g, new, old, adv, w, knobs);
}

static struct mf_val op_ppo_loss_dual(struct lab *l)
{
    struct mf_val old = input(l, 1, 6), adv = input(l, 1, 1), w = input_of(l, 1, 6, 0.5f, 1.0f);
    struct mf_val knobs = set(l, 1, 4, (float[]){0.2f, 1.5f, 1.0f, 0.0f}), new = operand(l, 1, 6);
    return mf_ppo_loss(l->g, new, old, adv, w, knobs);
}

static struct mf_val value_loss(struct lab *l, float clip, float delta)
{
    struct mf_val v = operand(l, 1, 1), ret = input(l, 1, 1), old = input(l, 1, 1), w = input_of(l, 1, 1, 0.5f, 1.0f);
    return mf_value_loss(l->g, v, ret, old, w, set(l, 1, 4, (float[]){clip, delta, 0.0f, 0.0f}));
}

static struct mf_val op_value_loss(struct lab *l)
{
    return value_loss(l, 0.0f, 0.0f);
}
static struct mf_val op_value_loss_huber(struct lab *l)
{
    return value_loss(l, 0.0f, 0.5f);
}
static struct mf_val op_value_loss_clip(struct lab *l)
{
    return value_loss(l, 0.2f, 0.0f);
}

static struct mf_val op_mse(struct lab *l)
{
    return mf_mse(l->g, operand(l, R, 12), input(l, R, 12), input(l, 1, 1));
}

#define OP(name)                                                                                                       \
    {                                                                                                                  \
#name, op_##name                                                                                               \
    }
static const struct {
    const char *name;
    struct mf_val (*record)(struct lab *l);
} ops[] = {
    OP(linear),
    OP(linear_relu),
    OP(linear_mish),
    OP(linear_tanh),
    OP(linear_silu),
    OP(linear_gelu),
    OP(linear_self),
    OP(linear_shared),
    OP(activate),
    OP(add),
    OP(concat),
    OP(stack),
    OP(slice_rows),
    OP(slice_cols),
    OP(spread),
    OP(reshape),
    OP(param_value),
    OP(pool_max),
    OP(pool_mean),
    OP(norm_layer),
    OP(norm_plain),
    OP(norm_rms),
    OP(norm_legacy),
    OP(modulate),
    OP(gate),
    OP(attention),
    OP(attention_wide),
    OP(attention_drop),
    OP(attention_cross),
    OP(attention_shared),
    OP(unfold),
    OP(fold),
    OP(convolve),
    OP(convolve_transposed),
    OP(group_norm),
    OP(film),
    OP(weigh),
    OP(sinusoid),
    OP(flow_mean),
    OP(noise_std),
    OP(logprob_std),
    OP(logprob_coef),
    OP(entropy),
    OP(reduce_all),
    OP(reduce_token),
    OP(reduce_action),
    OP(reduce_chunk),
    OP(ppo_loss),
    OP(ppo_loss_dual),
    OP(value_loss),
    OP(value_loss_huber),
    OP(value_loss_clip),
    OP(mse),
};

static void record(struct lab *l, int op, struct mf_engine *e, int tile, struct mf_err *err)
{
    *l = (struct lab){.rng = mf_rng_at(8, MF_RNG_TEST, (uint32_t)op, 0, 0)};
    l->g = mf_graph_new(&l->ps);
    struct mf_val y = l->y = ops[op].record(l);
    /* A loss that looks at every element with another weight. */
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
    if (mf_plan_run(l->plan, samples, index, l->feed, l->n_feeds, fetch, y ? 2 : 1, &err))
        printf("# %s\n", err.text);
    double sum = 0.0;
    for (size_t s = 0; s < samples; s++)
        sum += 0.5 * (double)loss[s];
    return sum;
}

enum { OPS = sizeof ops / sizeof *ops };

#endif
