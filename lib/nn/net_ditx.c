/* ManiFlow's DiTX (Yan et al., 2025): a diffusion transformer whose tokens are the actions of a horizon.
 *
 * A block has self-attention among the actions, cross-attention to the tokens of the observation, and an MLP. The time
 * and the step size modulate each of them (adaptive layer norm: Peebles & Xie, 2023). Keys and values of the
 * cross-attention depend on the observation alone, modulations on the time and the step size alone: each is computed
 * once for all denoising steps.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "nn/dp3.h"
#include "nn/mlp.h"

static const float block_eps = 1e-6f, head_eps = 1e-5f;

static int param(struct mf_graph *g, int rows, int cols, int rank, enum mf_init init, double a, const char *fmt, ...)
    __attribute__((format(printf, 7, 8)));
static int param(struct mf_graph *g, int rows, int cols, int rank, enum mf_init init, double a, const char *fmt, ...)
{
    char name[128];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    return mf_param_add(mf_graph_params(g), name, rows, cols, rank, MF_GROUP_POLICY, init, (float)a);
}

/* model.NAME{weight,bias}; Glorot & Bengio's bound, or zero at the start. */
static struct mf_layer dense(struct mf_graph *g, const char *name, int in, int out, bool bias, bool zero)
{
    double a = zero ? 0 : sqrt(6.0 / (in + out));
    struct mf_layer l = {.b = -1};
    l.W = param(g, out, in, 2, zero ? MF_INIT_CONST : MF_INIT_UNIFORM, a, "model.%sweight", name);
    if (bias)
        l.b = param(g, 1, out, 1, MF_INIT_CONST, 0, "model.%sbias", name);
    return l;
}

static struct mf_val apply(struct mf_graph *g, const char *name, struct mf_val x, int out, bool bias, bool zero,
                           enum mf_act act)
{
    return mf_layer_apply(g, dense(g, name, mf_cols(g, x), out, bias, zero), x, act);
}

/* model.blocks.{i}.NAME{weight,bias} */
static struct mf_val in_block(struct mf_graph *g, int i, const char *name, struct mf_val x, int out, bool bias,
                              bool zero, enum mf_act act)
{
    char full[96];
    snprintf(full, sizeof full, "blocks.%d.%s", i, name);
    return apply(g, full, x, out, bias, zero, act);
}

/* Columns [0, width) of x, with a layer norm of each head where the network has qk_norm. */
static struct mf_val head_norm(struct mf_graph *g, const struct mf_net_spec *s, int i, const char *which,
                               struct mf_val x)
{
    int n = s->width / s->heads;
    if (!s->qk_norm)
        return x;
    int W = param(g, 1, n, 1, MF_INIT_CONST, 1, "model.blocks.%d.cross_attn.%s.weight", i, which);
    int b = param(g, 1, n, 1, MF_INIT_CONST, 0, "model.blocks.%d.cross_attn.%s.bias", i, which);
    return mf_norm(g, x, 0, s->width, s->heads, MF_NORM_LAYER, W, b, head_eps);
}

static int check(const struct mf_net_spec *s, struct mf_err *err)
{
    if (mf_sinusoid_check(s->time_dim, err))
        return err->code;
    if (s->layers < 1 || s->layers > MF_LAYERS_MAX || s->heads < 1 || s->width < 1 || s->width % s->heads)
        return mf_err_set(err, MF_EUSAGE,
                          "policy.n_layer=%d, policy.n_head=%d, policy.n_emb=%d: policy.n_layer must be 1..%d, and "
                          "policy.n_head must divide policy.n_emb",
                          s->layers, s->heads, s->width, MF_LAYERS_MAX);
    if (s->encoder_dim < 1)
        return mf_err_set(err, MF_EUSAGE, "policy.encoder_output_dim=%d must be at least 1", s->encoder_dim);
    if (s->value_pool == MF_VALUE_ATTENTION && (s->encoder_dim + MF_STATE_DIM) % MF_POOL_HEADS)
        return mf_err_set(
            err, MF_EUSAGE,
            "policy.value_pool=attention has %d heads: policy.encoder_output_dim=%d must be a multiple of "
            "that",
            MF_POOL_HEADS, s->encoder_dim);
    return mf_dp3_check(s, err);
}

/* The first layer is over [point, state]. The state is one a step, so its columns are multiplied once a step. */
static void encode(struct mf_graph *g, const struct mf_net_spec *s, struct mf_share *c)
{
    struct mf_val points = c->features[0], state = c->features[1];
    int F = s->encoder_dim, L = mf_rows(g, points);
    struct mf_layer in = dense(g, "vis_cond_obs_emb.", F + MF_STATE_DIM, s->width, true, false);
    int at = param(g, L, s->width, 3, MF_INIT_NORMAL, .02, "model.vis_cond_pos_embed");
    struct mf_val once = mf_linear(g, state, in.W, F, in.b, MF_NONE, MF_NONE, MF_ACT_NONE);
    struct mf_val tokens = mf_linear(g, points, in.W, 0, -1, once, mf_param_value(g, at), MF_ACT_NONE);
    for (int i = 0; i < s->layers; i++) {
        struct mf_val kv = in_block(g, i, "cross_attn.kv.", tokens, 2 * s->width, s->qkv_bias, false, MF_ACT_NONE);
        c->part[2 * i] = head_norm(g, s, i, "k_norm", kv);
        c->part[2 * i + 1] = kv;
    }
    c->embed =
        mf_concat(g, 2, (struct mf_val[]){mf_pool(g, points, 1, MF_POOL_MEAN), mf_pool(g, state, 1, MF_POOL_MEAN)});
}

static struct mf_val embed_time(struct mf_graph *g, const struct mf_net_spec *s, const char *first, const char *second,
                                struct mf_val t)
{
    struct mf_val x = apply(g, first, mf_sinusoid(g, t, 1, s->time_dim), 4 * s->time_dim, true, false, MF_ACT_MISH);
    return apply(g, second, x, s->width, true, false, MF_ACT_NONE);
}

static struct mf_share time_code(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val t, struct mf_val d)
{
    struct mf_share c = {.obs = MF_NONE};
    struct mf_val two[] = {embed_time(g, s, "flow_timestep_encoder.1.", "flow_timestep_encoder.3.", t),
                           embed_time(g, s, "flow_target_t_encoder.1.", "flow_target_t_encoder.3.", d)};
    c.embed = apply(g, "timestep_target_t_adaptor.", mf_concat(g, 2, two), s->width, true, false, MF_ACT_NONE);
    struct mf_val x = mf_activate(g, c.embed, MF_ACT_SILU);
    for (int i = 0; i < s->layers; i++)
        c.part[i] = in_block(g, i, "adaLN_modulation.1.", x, 9 * s->width, true, true, MF_ACT_NONE);
    return c;
}

/* The norm before sublayer j of a block, with that sublayer's shift and scale. */
static struct mf_val enter(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val h, struct mf_val m, int j)
{
    struct mf_val x = mf_norm(g, h, 0, s->width, 1, MF_NORM_LAYER, -1, -1, block_eps);
    return mf_modulate(g, x, m, 3 * j * s->width);
}

static struct mf_val leave(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val h, struct mf_val x,
                           struct mf_val m, int j)
{
    return mf_gate(g, h, x, m, (3 * j + 2) * s->width);
}

static struct mf_val block(struct mf_graph *g, const struct mf_net_spec *s, int i, const struct mf_share *obs,
                           struct mf_val m, int steps, struct mf_val h)
{
    int W = s->width;
    struct mf_attend self = {.heads = s->heads, .blocks = steps, .dim = W, .out = W, .at = {0, W, 2 * W}};
    struct mf_attend cross = {.heads = s->heads, .blocks = 1, .dim = W, .out = W, .at = {0, 0, W}};
    self.scale = cross.scale = (float)(1 / sqrt((double)W / s->heads));
    self.drop = obs->drop, self.layer = i;

    struct mf_val x = in_block(g, i, "self_attn.in_proj_", enter(g, s, h, m, 0), 3 * W, true, false, MF_ACT_NONE);
    x = mf_attention(g, x, x, x, obs->key, &self);
    h = leave(g, s, h, in_block(g, i, "self_attn.out_proj.", x, W, true, false, MF_ACT_NONE), m, 0);

    x = in_block(g, i, "cross_attn.q.", enter(g, s, h, m, 1), W, s->qkv_bias, false, MF_ACT_NONE);
    x = head_norm(g, s, i, "q_norm", x);
    x = mf_attention(g, x, obs->part[2 * i], obs->part[2 * i + 1], MF_NONE, &cross);
    h = leave(g, s, h, in_block(g, i, "cross_attn.proj.", x, W, true, false, MF_ACT_NONE), m, 1);

    x = in_block(g, i, "mlp.fc1.", enter(g, s, h, m, 2), 4 * W, true, false, MF_ACT_GELU);
    return leave(g, s, h, in_block(g, i, "mlp.fc2.", x, W, true, false, MF_ACT_NONE), m, 2);
}

/* (k, H*A) are k*H tokens. The position embedding is added to all k steps at once. */
static struct mf_val velocity(struct mf_graph *g, const struct mf_net_spec *s, const struct mf_share *obs,
                              const struct mf_share *time, struct mf_val x)
{
    int k = mf_rows(g, x), H = s->horizon, A = s->D / H, W = s->width;
    int at = param(g, H, W, 3, MF_INIT_NORMAL, .02, "model.pos_emb");
    struct mf_val h = apply(g, "input_emb.", mf_reshape(g, x, k * H, A), W, true, false, MF_ACT_NONE);
    h = mf_add(g, mf_reshape(g, h, k, H * W), mf_reshape(g, mf_param_value(g, at), 1, H * W));
    h = mf_reshape(g, h, k * H, W);
    for (int i = 0; i < s->layers; i++)
        h = block(g, s, i, obs, time->part[i], k, h);
    int norm = param(g, 1, W, 1, MF_INIT_CONST, 1, "model.final_layer.norm_final.weight");
    h = mf_norm(g, h, 0, W, 1, s->legacy_rms ? MF_NORM_RMS_LEGACY : MF_NORM_RMS, norm, -1, block_eps);
    h = apply(g, "final_layer.ffn_final.fc1.", h, W, true, false, MF_ACT_GELU);
    return mf_reshape(g, apply(g, "final_layer.ffn_final.fc2.", h, A, true, true, MF_ACT_NONE), k, s->D);
}

const struct mf_net mf_net_ditx = {
    .name = "ditx",
    .sizes = MF_SIZE(time_dim) | MF_SIZE(n_layer) | MF_SIZE(n_head) | MF_SIZE(n_emb) | MF_SIZE(qkv_bias) |
             MF_SIZE(qk_norm) | MF_SIZE(legacy_rms) | MF_DP3_SIZES,
    .step_size = true,
    .dropout = true,
    .check = check,
    .encoder = mf_dp3,
    .encoding = mf_dp3_encoding,
    .encode = encode,
    .time = time_code,
    .velocity = velocity,
    .value = mf_value_head,
};
