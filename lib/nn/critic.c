#include <stdio.h>

#include "nn/mlp.h"

struct mf_val mf_critic(struct mf_graph *g, int n_hidden, const int *hidden, struct mf_val obs)
{
    struct mf_layer l = mf_residual_first(g, MF_GROUP_CRITIC, "critic.Q1", mf_cols(g, obs), hidden[0]);
    struct mf_val y = mf_layer_apply(g, l, obs, MF_ACT_NONE);
    return mf_residual(g, MF_GROUP_CRITIC, "critic.Q1", n_hidden, hidden, 1, MF_ACT_MISH, y);
}

struct mf_val mf_value_mlp(struct mf_graph *g, int n_hidden, const int *hidden, struct mf_val x)
{
    struct mf_params *ps = mf_graph_params(g);
    char name[64];
    for (int i = 0; i < n_hidden; i++) {
        snprintf(name, sizeof name, "value_head.mlp.%d", 2 * i);
        x = mf_layer_apply(g, mf_layer(g, MF_GROUP_CRITIC, name, mf_cols(g, x), hidden[i]), x, MF_ACT_RELU);
    }
    snprintf(name, sizeof name, "value_head.mlp.%d.weight", 2 * n_hidden);
    int W = mf_param_add(ps, name, 1, mf_cols(g, x), 2, MF_GROUP_CRITIC, MF_INIT_NORMAL, .02f);
    snprintf(name, sizeof name, "value_head.mlp.%d.bias", 2 * n_hidden);
    int b = mf_param_add(ps, name, 1, 1, 1, MF_GROUP_CRITIC, MF_INIT_CONST, 0);
    return mf_linear(g, x, W, 0, b, MF_NONE, MF_NONE, MF_ACT_NONE);
}
