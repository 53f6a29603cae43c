/* The plain convolutions of ManiSkill's baselines and of rl-vla: four 3x3 convolutions, each followed by max pooling
 * that halves the sides, and a 1x1 convolution; then a Linear over the maximum of each channel, or over the whole map.
 *
 * One encoder reads the pictures of all cameras as the channels of one, each step alone.
 */
#include <stdio.h>

#include "nn/encoder.h"
#include "nn/mlp.h"

enum { STAGES = 4, LAST = 128, SMALLEST = 1 << STAGES };

static int check(const struct mf_net_spec *s, struct mf_err *err)
{
    const struct mf_obs o = mf_encoder_picture(s);
    if (mf_encoder_one_size(s, err))
        return err->code;
    return s->encoded || (o.dim[0] >= SMALLEST && o.dim[1] >= SMALLEST)
               ? 0
               : mf_err_set(err, MF_EUSAGE,
                            "policy.encoder=plain_conv halves the sides of a picture %d times: %s of %d x %d pixels is "
                            "smaller than %d x %d",
                            STAGES, o.name, o.dim[0], o.dim[1], SMALLEST, SMALLEST);
}

static struct mf_feature_shape shape(const struct mf_net_spec *s)
{
    return (struct mf_feature_shape){.rows = s->n_obs_steps, .parts = 1, .width = s->encoder_dim};
}

static struct mf_val encode(struct mf_graph *g, const struct mf_encoder_input *in)
{
    static const int channels[STAGES] = {16, 32, 64, 128};
    const struct mf_obs o = mf_encoder_picture(in->s);
    const char *at = in->critic ? "critic.visual_encoder" : "visual_encoder";
    struct mf_patch same = {.H = o.dim[0], .W = o.dim[1], .kh = 3, .kw = 3, .stride = 1, .pad = 1};
    struct mf_val x = mf_encoder_stacked(g, in);
    char name[64];
    for (int i = 0; i < STAGES; i++) {
        snprintf(name, sizeof name, "%s.cnn.%d", at, 3 * i);
        x = mf_conv(g, in->group, name, x, &same, channels[i], MF_ACT_RELU);
        x = mf_max_pool2d(g, x, &(struct mf_patch){.H = same.H, .W = same.W, .kh = 2, .kw = 2, .stride = 2});
        same.H /= 2;
        same.W /= 2;
    }
    snprintf(name, sizeof name, "%s.cnn.%d", at, 3 * STAGES);
    x = mf_conv(g, in->group, name, x, &(struct mf_patch){.H = same.H, .W = same.W, .kh = 1, .kw = 1, .stride = 1},
                LAST, MF_ACT_RELU);
    snprintf(name, sizeof name, "%s.fc.0", at);
    x = in->s->pool_map ? mf_pool(g, x, in->s->n_obs_steps, MF_POOL_MAX) : mf_encoder_flat(g, x, in->s->n_obs_steps);
    return mf_layer_apply(g, mf_layer(g, in->group, name, mf_cols(g, x), in->s->encoder_dim), x, MF_ACT_RELU);
}

const struct mf_encoder mf_encoder_plain_conv = {
    .name = "plain_conv",
    .sizes = MF_ENCODER_SIZES | MF_SIZE(encoder_output_dim) | MF_SIZE(pool_feature_map),
    .scale = 1 / 255.f,
    .check = check,
    .shape = shape,
    .encode = encode,
};
