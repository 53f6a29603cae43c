/* The encoder of Mnih et al. (2015): convolutions 8x8 by 4, 4x4 by 2 and 3x3, then a Linear over the whole map.
 *
 * One encoder reads the pictures of all cameras as the channels of one, each step alone.
 */
#include <stdio.h>

#include "nn/encoder.h"
#include "nn/mlp.h"

enum { LAYERS = 3 };

static const struct mf_patch windows[LAYERS] = {
    {.kh = 8, .kw = 8, .stride = 4}, {.kh = 4, .kw = 4, .stride = 2}, {.kh = 3, .kw = 3, .stride = 1}};

static int check(const struct mf_net_spec *s, struct mf_err *err)
{
    enum { SMALLEST = 36 }; /* leaves one pixel */
    const struct mf_obs o = mf_encoder_picture(s);
    if (s->n_channels != LAYERS)
        return mf_err_set(err, MF_EUSAGE,
                          "policy.encoder=nature has %d convolutions: policy.encoder_channels needs %d "
                          "widths, not %d",
                          LAYERS, LAYERS, s->n_channels);
    if (s->state_dim && !mf_encoder_state_width(s))
        return mf_err_set(err, MF_EUSAGE,
                          "policy.encoder_state_dim=%d needs observations that are no pictures: name some in "
                          "policy.obs_keys, or give 0",
                          s->state_dim);
    if (mf_encoder_one_size(s, err))
        return err->code;
    if ((int64_t)o.dim[0] * o.dim[1] / 64 > INT32_MAX / s->channels[LAYERS - 1])
        return mf_err_set(err, MF_EUSAGE,
                          "policy.encoder=nature: the last map, %d channels of pictures of %d x %d pixels, exceeds the "
                          "maximum size of a layer",
                          s->channels[LAYERS - 1], o.dim[0], o.dim[1]);
    return s->encoded || (o.dim[0] >= SMALLEST && o.dim[1] >= SMALLEST)
               ? 0
               : mf_err_set(err, MF_EUSAGE,
                            "policy.encoder=nature needs pictures of at least %d x %d pixels, and %s has %d x %d",
                            SMALLEST, SMALLEST, o.name, o.dim[0], o.dim[1]);
}

static struct mf_feature_shape shape(const struct mf_net_spec *s)
{
    return (struct mf_feature_shape){
        .rows = s->n_obs_steps, .parts = 1, .width = s->encoder_dim + s->state_dim, .whole = s->state_dim > 0};
}

/* ManiSkill's Linear over the state of each step, without an activation. */
static struct mf_val encode_state(struct mf_graph *g, const struct mf_encoder_input *in)
{
    const char *name = in->critic ? "critic.feature_net.extractors.state" : "feature_net.extractors.state";
    struct mf_val x = mf_encoder_states(g, in);
    return mf_layer_apply(g, mf_layer(g, in->group, name, mf_cols(g, x), in->s->state_dim), x, MF_ACT_NONE);
}

static struct mf_val encode(struct mf_graph *g, const struct mf_encoder_input *in)
{
    const struct mf_obs o = mf_encoder_picture(in->s);
    const char *at = in->critic ? "critic.feature_net.extractors.rgb" : "feature_net.extractors.rgb";
    struct mf_val x = mf_encoder_stacked(g, in);
    char name[80];
    for (int i = 0, H = o.dim[0], W = o.dim[1]; i < LAYERS; i++) {
        struct mf_patch window = windows[i];
        window.H = H, window.W = W;
        snprintf(name, sizeof name, "%s.0.%d", at, 2 * i);
        x = mf_conv(g, in->group, name, x, &window, in->s->channels[i], MF_ACT_RELU);
        H = (H - window.kh) / window.stride + 1;
        W = (W - window.kw) / window.stride + 1;
    }
    snprintf(name, sizeof name, "%s.1.0", at);
    x = mf_encoder_flat(g, x, in->s->n_obs_steps);
    x = mf_layer_apply(g, mf_layer(g, in->group, name, mf_cols(g, x), in->s->encoder_dim), x, MF_ACT_RELU);
    return in->s->state_dim ? mf_concat(g, 2, (struct mf_val[]){x, encode_state(g, in)}) : x;
}

const struct mf_encoder mf_encoder_nature = {
    .name = "nature",
    .sizes = MF_ENCODER_SIZES | MF_SIZE(encoder_output_dim) | MF_SIZE(encoder_channels) | MF_SIZE(encoder_state_dim),
    .scale = 1 / 255.f,
    .check = check,
    .shape = shape,
    .encode = encode,
};
