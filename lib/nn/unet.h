/* unet.h - the conditional 1-D U-Net of diffusion policy (Chi et al., 2023) as a velocity network, with and without a
 * step size.
 *
 * The H actions of a chunk are the time that it convolves over, A their channels; level i of `down` has down[i]
 * channels and H/2^i rows. FiLM conditions every residual block: the normalised observation and the time embedding
 * predict a scale and a shift of its channels. The embedding is of 100 t, as in the published flow policies on this
 * network.
 */
#ifndef MF_NN_UNET_H
#define MF_NN_UNET_H

#include "nn/net.h"

#define MF_UNET_SIZES (MF_SIZE(time_dim) | MF_SIZE(down_dims) | MF_SIZE(kernel_size) | MF_SIZE(n_groups))

int mf_unet_check(const struct mf_net_spec *s, struct mf_err *err);
void mf_unet_encode(struct mf_graph *g, const struct mf_net_spec *s, struct mf_share *obs);
/* (k, time_dim) of the time t (k, 1): `velocity_net.unet.diffusion_step_encoder.*`. */
struct mf_val mf_unet_time(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val t);
/* The time's share of every block's FiLM, from that embedding or from the one that a step size extends. */
struct mf_share mf_unet_film(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val time);
struct mf_val mf_unet_velocity(struct mf_graph *g, const struct mf_net_spec *s, const struct mf_share *obs,
                               const struct mf_share *time, struct mf_val x);

#endif
