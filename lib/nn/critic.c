#include "nn/mlp.h"

struct mf_val mf_critic(struct mf_graph *g, int n_hidden, const int *hidden, struct mf_val obs)
{
    struct mf_layer l = mf_residual_first(g, MF_GROUP_CRITIC, "critic.Q1", mf_cols(g, obs), hidden[0]);
    struct mf_val y = mf_layer_apply(g, l, obs, MF_ACT_NONE);
    return mf_residual(g, MF_GROUP_CRITIC, "critic.Q1", n_hidden, hidden, 1, MF_ACT_MISH, y);
}
