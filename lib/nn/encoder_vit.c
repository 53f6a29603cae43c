/* The encoder of ReinFlow's and DPPO's image policies (Hu et al., 2024): patches by two convolutions, a transformer
 * over them, and the features of each camera that the SpatialEmb makes of its tokens and of the states.
 *
 * One ViT encodes the pictures of all cameras; each camera has its own SpatialEmb. The steps of a camera are the
 * channels of one picture, the oldest first.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "nn/encoder.h"
#include "nn/mlp.h"

enum {
    SIDE = 8, /* pixels: the sides of a picture are multiples of it */
    SMALLEST = 16,
    STEPS = 64 /* at most */
};

static const float norm_eps = 1e-5f;

/* The first picture with other channels than the first of all; NULL: they agree. */
static const struct mf_obs *odd_channels(const struct mf_net_spec *s)
{
    const struct mf_obs seen = mf_encoder_picture(s);
    for (int i = 0; i < s->obs.n; i++)
        if (mf_obs_is_picture(&s->obs.key[i]) && s->obs.key[i].dim[2] != seen.dim[2])
            return &s->obs.key[i];
    return NULL;
}

static int check_pictures(const struct mf_net_spec *s, struct mf_err *err)
{
    const struct mf_obs o = mf_encoder_picture(s), *odd = odd_channels(s);
    if (mf_encoder_one_size(s, err))
        return err->code;
    if (odd)
        return mf_err_set(err, MF_EUSAGE,
                          "policy.encoder=vit encodes all cameras by one ViT: %s has %d channels, and %s %d", o.name,
                          o.dim[2], odd->name, odd->dim[2]);
    if (o.dim[0] % SIDE || o.dim[1] % SIDE || o.dim[0] < SMALLEST || o.dim[1] < SMALLEST)
        return mf_err_set(err, MF_EUSAGE,
                          "policy.encoder=vit divides a picture into patches, which needs sides that are multiples of "
                          "%d and at least %d: %s has %d x %d pixels (env.image_size=96 is the published size)",
                          SIDE, SMALLEST, o.name, o.dim[0], o.dim[1]);
    return 0;
}

static int check(const struct mf_net_spec *s, struct mf_err *err)
{
    if (s->vit_width % s->vit_heads)
        return mf_err_set(err, MF_EUSAGE, "policy.encoder_width=%d does not divide into policy.encoder_heads=%d heads",
                          s->vit_width, s->vit_heads);
    if (s->n_obs_steps > STEPS)
        return mf_err_set(err, MF_EUSAGE, "policy.encoder=vit takes at most %d steps, not policy.n_obs_steps=%d", STEPS,
                          s->n_obs_steps);
    if (s->img_steps > s->n_obs_steps)
        return mf_err_set(err, MF_EUSAGE, "policy.img_cond_steps=%d is more than policy.n_obs_steps=%d", s->img_steps,
                          s->n_obs_steps);
    return s->encoded ? 0 : check_pictures(s, err);
}

static struct mf_feature_shape shape(const struct mf_net_spec *s)
{
    return (struct mf_feature_shape){
        .rows = 1, .parts = mf_layout_pictures(&s->obs), .width = s->spatial_emb, .ahead = true};
}

/* ---- layers ---- */

__attribute__((format(printf, 8, 9))) static int param(struct mf_graph *g, const struct mf_encoder_input *in, int rows,
                                                       int cols, int rank, enum mf_init init, float a, const char *fmt,
                                                       ...)
{
    char name[128];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    return mf_param_add(mf_graph_params(g), name, rows, cols, rank, in->group, init, a);
}

/* The Linear at.name. */
static struct mf_layer layer(struct mf_graph *g, const struct mf_encoder_input *in, const char *at, const char *name,
                             int inputs, int outputs)
{
    char path[128];
    snprintf(path, sizeof path, "%s.%s", at, name);
    return mf_layer(g, in->group, path, inputs, outputs);
}

static struct mf_val norm(struct mf_graph *g, const struct mf_encoder_input *in, const char *at, const char *name,
                          struct mf_val x)
{
    const int E = mf_cols(g, x), W = param(g, in, 1, E, 1, MF_INIT_CONST, 1, "%s.%s.weight", at, name),
              b = param(g, in, 1, E, 1, MF_INIT_CONST, 0, "%s.%s.bias", at, name);
    return mf_norm(g, x, 0, E, 1, MF_NORM_LAYER, W, b, norm_eps);
}

static struct mf_val apply(struct mf_graph *g, struct mf_layer l, struct mf_val x, struct mf_val residual,
                           enum mf_act act)
{
    return mf_linear(g, x, l.W, 0, l.b, residual, MF_NONE, act);
}

/* ---- the ViT ---- */

static struct mf_val conv(struct mf_graph *g, const struct mf_encoder_input *in, const char *at, const char *name,
                          struct mf_val x, const struct mf_patch *how, enum mf_act act)
{
    char path[128];
    snprintf(path, sizeof path, "%s.patch_embed.embed.%s", at, name);
    return mf_conv(g, in->group, path, x, how, in->s->vit_width, act);
}

static struct mf_val block(struct mf_graph *g, const struct mf_encoder_input *in, const char *vit, int i,
                           struct mf_val u)
{
    const int E = in->s->vit_width, heads = in->s->vit_heads;
    const struct mf_attend self = {.heads = heads,
                                   .blocks = 1,
                                   .dim = E,
                                   .out = E,
                                   .at = {0, E, 2 * E},
                                   .scale = (float)(1 / sqrt((double)E / heads))};
    char at[96];
    snprintf(at, sizeof at, "%s.net.%d", vit, i);
    struct mf_val x = norm(g, in, at, "layer_norm1", u);
    x = apply(g, layer(g, in, at, "mha.qkv_proj", E, 3 * E), x, MF_NONE, MF_ACT_NONE);
    x = mf_attention(g, x, x, x, MF_NONE, &self);
    u = apply(g, layer(g, in, at, "mha.out_proj", E, E), x, u, MF_ACT_NONE);
    x = norm(g, in, at, "layer_norm2", u);
    x = apply(g, layer(g, in, at, "linear1", E, 4 * E), x, MF_NONE, MF_ACT_GELU_ERF);
    return apply(g, layer(g, in, at, "linear2", 4 * E, E), x, u, MF_ACT_NONE);
}

/* A picture (H*W, C) -> tokens (P, E). */
static struct mf_val tokens(struct mf_graph *g, const struct mf_encoder_input *in, struct mf_val picture)
{
    const struct mf_obs o = mf_encoder_picture(in->s);
    const char *vit = in->critic ? "critic.backbone.vit" : "network.backbone.vit";
    const struct mf_patch wide = {.H = o.dim[0], .W = o.dim[1], .kh = 8, .kw = 8, .stride = 4};
    const struct mf_patch small = {
        .H = mf_patch_down(&wide), .W = mf_patch_across(&wide), .kh = 3, .kw = 3, .stride = 2};
    struct mf_val u = conv(g, in, vit, "0", picture, &wide, MF_ACT_RELU);
    u = conv(g, in, vit, "3", u, &small, MF_ACT_NONE);
    const int at = param(g, in, mf_rows(g, u), mf_cols(g, u), 3, MF_INIT_NORMAL, .02f, "%s.pos_embed", vit);
    u = mf_add(g, u, mf_param_value(g, at));
    for (int i = 0; i < in->s->vit_layers; i++)
        u = block(g, in, vit, i, u);
    return norm(g, in, vit, "norm", u);
}

/* ---- the features of a camera ---- */

/* The newest steps of the observation `key` as one picture, the channels of the oldest first. */
static struct mf_val stacked_steps(struct mf_graph *g, const struct mf_encoder_input *in, int key)
{
    const int To = in->s->n_obs_steps, n = in->s->img_steps ? in->s->img_steps : To;
    struct mf_val map = mf_encoder_map(g, in, key), step[STEPS];
    const int pixels = mf_rows(g, map) / To;
    if (To == 1)
        return map;
    for (int t = 0; t < n; t++)
        step[t] = mf_slice_rows(g, map, (To - n + t) * pixels, pixels);
    return n == 1 ? step[0] : mf_concat(g, n, step);
}

/* SpatialEmb: tokens (P, E) and the states of all steps (1, n) -> (1, d). The states are the same for all E rows, so
 * that their part of the Linear is one product. */
static struct mf_val compress(struct mf_graph *g, const struct mf_encoder_input *in, const char *at, struct mf_val x,
                              struct mf_val states)
{
    const int P = mf_rows(g, x), E = mf_cols(g, x), n = states.id ? mf_cols(g, states) : 0;
    const int d = in->critic && in->s->critic_emb ? in->s->critic_emb : in->s->spatial_emb;
    const struct mf_layer first = layer(g, in, at, "input_proj.0", P + n, d);
    struct mf_val prop = MF_NONE;
    if (n)
        prop = mf_linear(g, states, first.W, P, -1, MF_NONE, MF_NONE, MF_ACT_NONE);
    struct mf_val y = mf_linear(g, mf_transpose(g, x, 1), first.W, 0, first.b, prop, MF_NONE, MF_ACT_NONE);
    y = mf_activate(g, norm(g, in, at, "input_proj.1", y), MF_ACT_RELU);
    return mf_blend(g, y, param(g, in, E, d, 3, MF_INIT_NORMAL, 1, "%s.weight", at));
}

static struct mf_val encode(struct mf_graph *g, const struct mf_encoder_input *in)
{
    const struct mf_net_spec *s = in->s;
    const int cameras = mf_layout_pictures(&s->obs);
    struct mf_val states = MF_NONE, features[MF_OBS_KEYS];
    if (mf_encoder_state_width(s))
        states = mf_reshape(g, mf_encoder_states(g, in), 1, s->n_obs_steps * mf_encoder_state_width(s));
    for (int i = 0, n = 0; i < s->obs.n; i++) {
        if (!mf_obs_is_picture(&s->obs.key[i]))
            continue;
        char at[64];
        const char *of = in->critic ? "critic" : "network";
        struct mf_val x = tokens(g, in, stacked_steps(g, in, i));
        snprintf(at, sizeof at, cameras > 1 ? "%s.compress%d" : "%s.compress", of, n + 1);
        features[n++] = compress(g, in, at, x, states);
    }
    return cameras == 1 ? features[0] : mf_concat(g, cameras, features);
}

const struct mf_encoder mf_encoder_vit = {
    .name = "vit",
    .sizes = MF_ENCODER_SIZES | MF_SIZE(encoder_width) | MF_SIZE(encoder_heads) | MF_SIZE(encoder_layers) |
             MF_SIZE(spatial_emb) | MF_SIZE(critic_spatial_emb) | MF_SIZE(img_cond_steps),
    .scale = 1 / 255.f,
    .offset = -.5f,
    .check = check,
    .shape = shape,
    .encode = encode,
};
