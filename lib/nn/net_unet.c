/* ConditionalUnet1D as a flow's velocity, without a step size. */
#include "nn/unet.h"

static struct mf_share time_code(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val t, struct mf_val d)
{
    (void)d;
    return mf_unet_film(g, s, mf_unet_time(g, s, t));
}

const struct mf_net mf_net_unet = {
    .name = "unet",
    .sizes = MF_UNET_SIZES,
    .check = mf_unet_check,
    .encode = mf_unet_encode,
    .time = time_code,
    .velocity = mf_unet_velocity,
};
