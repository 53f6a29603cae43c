/* The vision tower of pi0.5, SigLIP: patches of each picture by one convolution, a transformer over them, and a
 * projection into the space of the language model. All pictures of an observation are computed together.
 */
#include <math.h>
#include <stdio.h>

#include "nn/encoder.h"
#include "nn/mlp.h"
#include "nn/pi05.h"

#define TOWER "paligemma_with_expert.paligemma.model.vision_tower.vision_model."

static const float norm_eps = 1e-6f;

static const struct mf_obs *first_picture(const struct mf_net_spec *s)
{
    for (int i = 0; i < s->obs.n; i++)
        if (mf_obs_is_picture(&s->obs.key[i]))
            return &s->obs.key[i];
    return NULL;
}

int mf_pi05_vision_check(const struct mf_net_spec *s, struct mf_err *err)
{
    const struct mf_obs *first = first_picture(s);
    if (!first)
        return mf_err_set(err, MF_EUSAGE,
                          "policy.network=pi05 needs pictures: name some in policy.obs_keys, such as agentview_image");
    for (int i = 0; i < s->obs.n; i++) {
        const struct mf_obs *o = &s->obs.key[i];
        if (!mf_obs_is_picture(o))
            continue;
        if (o->dim[2] != 3)
            return mf_err_set(err, MF_EUSAGE, "policy.network=pi05 needs pictures with 3 channels: %s has %d", o->name,
                              o->dim[2]);
        if (o->dim[0] != first->dim[0] || o->dim[1] != first->dim[1])
            return mf_err_set(err, MF_EUSAGE,
                              "policy.network=pi05 needs pictures of one size: %s is %d x %d pixels, and %s %d x %d",
                              first->name, first->dim[0], first->dim[1], o->name, o->dim[0], o->dim[1]);
    }
    if (s->vit_width % s->vit_heads)
        return mf_err_set(err, MF_EUSAGE, "policy.encoder_width=%d does not divide into policy.encoder_heads=%d heads",
                          s->vit_width, s->vit_heads);
    if (first->dim[0] % s->patch || first->dim[1] % s->patch)
        return mf_err_set(err, MF_EUSAGE, "%s of %d x %d pixels does not divide into patches of policy.patch_size=%d",
                          first->name, first->dim[0], first->dim[1], s->patch);
    return 0;
}

int mf_pi05_patches(const struct mf_net_spec *s)
{
    const struct mf_obs *o = first_picture(s);
    return o->dim[0] / s->patch * (o->dim[1] / s->patch);
}

/* ---- layers: `at`.`name` below the tower ---- */

static struct mf_val linear(struct mf_graph *g, const char *at, const char *name, struct mf_val x, int out,
                            struct mf_val residual, enum mf_act act)
{
    char path[192];
    snprintf(path, sizeof path, TOWER "%s.%s", at, name);
    struct mf_layer l = mf_layer(g, MF_GROUP_ENCODER, path, mf_cols(g, x), out);
    return mf_linear(g, x, l.W, 0, l.b, residual, MF_NONE, act);
}

static struct mf_val norm(struct mf_graph *g, const char *name, struct mf_val x)
{
    struct mf_params *ps = mf_graph_params(g);
    const int E = mf_cols(g, x);
    char path[128];
    snprintf(path, sizeof path, TOWER "%s.weight", name);
    const int W = mf_param_add(ps, path, 1, E, 1, MF_GROUP_ENCODER, MF_INIT_CONST, 1);
    snprintf(path, sizeof path, TOWER "%s.bias", name);
    const int b = mf_param_add(ps, path, 1, E, 1, MF_GROUP_ENCODER, MF_INIT_CONST, 0);
    return mf_norm(g, x, 0, E, 1, MF_NORM_LAYER, W, b, norm_eps);
}

static struct mf_val layer(struct mf_graph *g, const struct mf_net_spec *s, int i, int pictures, struct mf_val h)
{
    const int E = s->vit_width;
    const struct mf_attend self = {.heads = s->vit_heads,
                                   .blocks = pictures,
                                   .dim = E,
                                   .out = E,
                                   .scale = (float)(1 / sqrt((double)E / s->vit_heads))};
    char at[64], name[96];
    snprintf(at, sizeof at, "encoder.layers.%d", i);
    snprintf(name, sizeof name, "%s.layer_norm1", at);
    struct mf_val x = norm(g, name, h), q, k, v;
    q = linear(g, at, "self_attn.q_proj", x, E, MF_NONE, MF_ACT_NONE);
    k = linear(g, at, "self_attn.k_proj", x, E, MF_NONE, MF_ACT_NONE);
    v = linear(g, at, "self_attn.v_proj", x, E, MF_NONE, MF_ACT_NONE);
    h = linear(g, at, "self_attn.out_proj", mf_attention(g, q, k, v, MF_NONE, &self), E, h, MF_ACT_NONE);
    snprintf(name, sizeof name, "%s.layer_norm2", at);
    x = linear(g, at, "mlp.fc1", norm(g, name, h), s->vit_mlp, MF_NONE, MF_ACT_GELU);
    return linear(g, at, "mlp.fc2", x, E, h, MF_ACT_NONE);
}

/* ---- pictures ---- */

/* Numbers in [-1, 1]: a uint8 x is x/255*2 - 1. (I*H*W, 3). */
static struct mf_val pictures_of(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val raw, int *n)
{
    struct mf_val map[MF_OBS_KEYS];
    *n = 0;
    for (int i = 0; i < s->obs.n; i++)
        if (mf_obs_is_picture(&s->obs.key[i]))
            map[(*n)++] = mf_picture_map(g, s, raw, i, s->obs.key[i].u8 ? 2 / 255.f : 1, s->obs.key[i].u8 ? -1 : 0);
    return *n == 1 ? map[0] : mf_stack(g, *n, map);
}

/* The position embedding is added to all pictures at once. */
static struct mf_val embed(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val map, int pictures)
{
    const struct mf_obs *o = first_picture(s);
    const int E = s->vit_width, P = mf_pi05_patches(s);
    const struct mf_patch how = {.H = o->dim[0], .W = o->dim[1], .kh = s->patch, .kw = s->patch, .stride = s->patch};
    struct mf_val h = mf_conv(g, MF_GROUP_ENCODER, TOWER "embeddings.patch_embedding", map, &how, E, MF_ACT_NONE);
    const int at = mf_param_add(mf_graph_params(g), TOWER "embeddings.position_embedding.weight", P, E, 2,
                                MF_GROUP_ENCODER, MF_INIT_NORMAL, (float)(1 / sqrt(E)));
    h = mf_add(g, mf_reshape(g, h, pictures, P * E), mf_reshape(g, mf_param_value(g, at), 1, P * E));
    return mf_reshape(g, h, pictures * P, E);
}

struct mf_val mf_pi05_vision(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val raw, struct mf_val mask)
{
    int pictures;
    struct mf_val map = pictures_of(g, s, raw, &pictures), h = embed(g, s, map, pictures);
    h = mask.id ? mf_only(g, h, mask) : h;
    for (int i = 0; i < s->vit_layers; i++)
        h = layer(g, s, i, pictures, h);
    h = norm(g, "post_layernorm", h);
    struct mf_layer to =
        mf_layer(g, MF_GROUP_ENCODER, "paligemma_with_expert.paligemma.model.multi_modal_projector.linear",
                 s->vit_width, s->width);
    return mf_layer_apply(g, to, h, MF_ACT_NONE);
}
