#include "nn/mlp.h"

#include <stdio.h>

static void add_bound(struct mf_graph *g, const char *prefix, const char *which)
{
    char name[64];
    snprintf(name, sizeof name, "%s.logvar_%s", prefix, which);
    mf_param_add(mf_graph_params(g), name, 1, 1, 1, MF_GROUP_BUFFER, MF_INIT_CONST, 0);
}

struct mf_val mf_noise_net(struct mf_graph *g, const char *prefix, int n_hidden, const int *hidden, int D,
                           struct mf_val time, struct mf_val obs)
{
    add_bound(g, prefix, "min");
    add_bound(g, prefix, "max");

    /* The first layer is split by columns, as in the velocity networks: the observation's part once for all steps. */
    const int e = time.id ? mf_cols(g, time) : 0;
    struct mf_val x = MF_NONE;
    for (int i = 0; i <= n_hidden; i++) {
        char name[96];
        snprintf(name, sizeof name, "%s.mlp_logvar.moduleList.%d.linear_1", prefix, i);
        int in = i ? hidden[i - 1] : e + mf_cols(g, obs), out = i < n_hidden ? hidden[i] : D;
        struct mf_layer l = mf_layer(g, MF_GROUP_NOISE, name, in, out);
        enum mf_act act = i < n_hidden ? MF_ACT_TANH : MF_ACT_NONE;
        if (i == 0 && e) {
            struct mf_val part = mf_linear(g, obs, l.W, e, l.b, MF_NONE, MF_NONE, MF_ACT_NONE);
            x = mf_linear(g, mf_detach(g, time), l.W, 0, -1, part, MF_NONE, act);
        } else {
            x = mf_layer_apply(g, l, i ? x : obs, act);
        }
    }
    return x;
}
