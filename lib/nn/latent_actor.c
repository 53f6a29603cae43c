#include "nn/mlp.h"

#include <stdio.h>

struct mf_latent mf_latent_actor(struct mf_graph *g, int n_hidden, const int *hidden, int D, struct mf_val obs)
{
    struct mf_params *ps = mf_graph_params(g);
    struct mf_val x = obs;
    for (int i = 0; i < n_hidden; i++) {
        char name[64];
        snprintf(name, sizeof name, "latent_actor.trunk.%d", 2 * i);
        x = mf_layer_apply(g, mf_layer_ortho(g, MF_GROUP_STEER, name, mf_cols(g, x), hidden[i], 1), x, MF_ACT_RELU);
    }
    const int F = mf_cols(g, x);
    struct mf_layer mean = mf_layer_ortho(g, MF_GROUP_STEER, "latent_actor.mean_head", F, D, .01f);
    int W = mf_param_add(ps, "latent_actor.logstd_head.weight", D, F, 2, MF_GROUP_STEER, MF_INIT_CONST, 0);
    int b = mf_param_add(ps, "latent_actor.logstd_head.bias", 1, D, 1, MF_GROUP_STEER, MF_INIT_CONST, 0);
    return (struct mf_latent){.mean = mf_layer_apply(g, mean, x, MF_ACT_NONE),
                              .logstd = mf_linear(g, x, W, 0, b, MF_NONE, MF_NONE, MF_ACT_NONE)};
}
