/* ShortCutVelocityUNet1D: a U-Net that takes a step size. An MLP embeds the step size as wide as the time, and a layer
 * maps both embeddings to one. (The published code has these layers and does not use their output.)
 */
#include "nn/mlp.h"
#include "nn/unet.h"

static struct mf_share time_code(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val t, struct mf_val d)
{
    int e = s->time_dim;
    struct mf_layer in = mf_layer(g, MF_GROUP_POLICY, "velocity_net.step_size_embed.0", 1, e);
    struct mf_layer out = mf_layer(g, MF_GROUP_POLICY, "velocity_net.step_size_embed.2", e, e);
    struct mf_layer both = mf_layer(g, MF_GROUP_POLICY, "velocity_net.combine_embed.0", 2 * e, e);
    struct mf_val step = mf_layer_apply(g, out, mf_layer_apply(g, in, d, MF_ACT_MISH), MF_ACT_NONE);
    struct mf_val td = mf_concat(g, 2, (struct mf_val[]){mf_unet_time(g, s, t), step});
    return mf_unet_film(g, s, mf_layer_apply(g, both, td, MF_ACT_NONE));
}

const struct mf_net mf_net_shortcut_unet = {
    .name = "shortcut_unet",
    .sizes = MF_UNET_SIZES,
    .step_size = true,
    .check = mf_unet_check,
    .encode = mf_unet_encode,
    .time = time_code,
    .velocity = mf_unet_velocity,
};
