/* dp3.h - the encoder of point clouds and states (Ze et al., DP3, 2024; ManiFlow's variants), and the critic over
 * its tokens.
 *
 * An observation has one array of points (N, 3) or (N, 6), coordinates then
 * colours, and others of one dimension, its state. A token is what an MLP of
 * its own makes of a point, beside what one makes of the step's state.
 */
#ifndef MF_NN_DP3_H
#define MF_NN_DP3_H

#include "nn/net.h"

#define MF_DP3_SIZES (MF_SIZE(encoder_output_dim) | MF_SIZE(pointwise) | MF_SIZE(use_pc_color) | MF_SIZE(value_pool))

enum {
    MF_STATE_DIM = 64, /* of the state's share of a token */
    MF_POOL_HEADS = 4  /* of the critic's attention, value_pool=attention */
};

/* 0, or MF_EUSAGE: the observations are no cloud and state. */
int mf_dp3_check(const struct mf_net_spec *s, struct mf_err *err);
/* seen[0] (L, encoder_dim) of the points, L = To*N or, without pointwise, To; seen[1] (To, MF_STATE_DIM) of the state:
 * `obs_encoder.*`. */
void mf_dp3(struct mf_graph *g, const struct mf_net_spec *s, struct mf_share *obs);
int mf_dp3_encoding(const struct mf_net_spec *s, struct mf_obs *of_step);
/* (1, 1): an MLP, `value_head.mlp.*`, of the tokens' mean or of what `attention_pool.*` makes of them. */
struct mf_val mf_value_head(struct mf_graph *g, const struct mf_net_spec *s, int n_hidden, const int *hidden,
                            const struct mf_share *seen);

#endif
