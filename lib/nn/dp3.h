/* dp3.h - the encoder of point clouds and states (Ze et al., DP3, 2024; ManiFlow's variants), and the critic over
 * its tokens.
 *
 * An observation has one array of points, (N, 3) or (N, 6), coordinates then
 * colours. Its other arrays have one dimension and form the state. One MLP
 * encodes each point, a second MLP encodes the state of each step. A token
 * concatenates the two.
 */
#ifndef MF_NN_DP3_H
#define MF_NN_DP3_H

#include "nn/net.h"

#define MF_DP3_SIZES (MF_SIZE(encoder_output_dim) | MF_SIZE(pointwise) | MF_SIZE(use_pc_color) | MF_SIZE(value_pool))

enum {
    MF_STATE_DIM = 64, /* columns of a token that encode the state */
    MF_POOL_HEADS = 4  /* heads of the critic's attention (value_pool=attention) */
};

/* 0, or MF_EUSAGE: the observations are not one cloud and at least one state. */
int mf_dp3_check(const struct mf_net_spec *s, struct mf_err *err);
/* The encoder, `obs_encoder.*`. features[0] (L, encoder_dim): the points' features, L = To*N, without pointwise To.
 * features[1] (To, MF_STATE_DIM): the states' features. */
void mf_dp3(struct mf_graph *g, const struct mf_net_spec *s, struct mf_share *obs);
/* The points' features as an observation: see mf_net.encoding. */
int mf_dp3_encoding(const struct mf_net_spec *s, struct mf_obs *of_step);
/* (1, 1): the MLP `value_head.mlp.*` over the tokens' mean or over their attention pool, `attention_pool.*`. */
struct mf_val mf_value_head(struct mf_graph *g, const struct mf_net_spec *s, int n_hidden, const int *hidden,
                            const struct mf_share *obs);

#endif
