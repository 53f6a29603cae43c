/* ReinFlow's FlowMLP: ResidualMLP of [action, time embedding, condition] (Zhang et al., 2025).
 *
 * The inputs are not concatenated. Each input is multiplied by its own columns of the first layer, so that the time's
 * and the condition's products are computed once for all denoising steps.
 */
#include "nn/mlp.h"

static const char trunk[] = "network.mlp_mean";

static struct mf_layer first(struct mf_graph *g, const struct mf_net_spec *s)
{
    return mf_residual_first(g, MF_GROUP_POLICY, trunk, s->D + s->time_dim + mf_condition_width(s), s->hidden[0]);
}

static int check(const struct mf_net_spec *s, struct mf_err *err)
{
    if (mf_sinusoid_check(s->time_dim, err))
        return err->code;
    return mf_residual_check("policy.hidden of reflow_mlp", s->n_hidden, s->hidden, err);
}

static void encode(struct mf_graph *g, const struct mf_net_spec *s, struct mf_share *c)
{
    struct mf_layer l = first(g, s);
    c->embed = mf_condition(g, s, "network.cond_mlp", c->obs);
    c->part[0] = mf_linear(g, c->embed, l.W, s->D + s->time_dim, l.b, MF_NONE, MF_NONE, MF_ACT_NONE);
}

static struct mf_share time_code(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val t, struct mf_val d)
{
    (void)d;
    int e = s->time_dim;
    struct mf_layer l = first(g, s);
    struct mf_layer up = mf_layer(g, MF_GROUP_POLICY, "network.time_embedding.1", e, 2 * e);
    struct mf_layer down = mf_layer(g, MF_GROUP_POLICY, "network.time_embedding.3", 2 * e, e);
    struct mf_share c = {.obs = MF_NONE};
    c.embed = mf_layer_apply(g, down, mf_layer_apply(g, up, mf_sinusoid(g, t, 1, e), MF_ACT_MISH), MF_ACT_NONE);
    c.part[0] = mf_linear(g, c.embed, l.W, s->D, -1, MF_NONE, MF_NONE, MF_ACT_NONE);
    return c;
}

static struct mf_val velocity(struct mf_graph *g, const struct mf_net_spec *s, const struct mf_share *obs,
                              const struct mf_share *time, struct mf_val x)
{
    return mf_residual_velocity(g, s, trunk, first(g, s).W, obs, time, x);
}

const struct mf_net mf_net_reflow_mlp = {
    .name = "reflow_mlp",
    .sizes = MF_MLP_SIZES,
    .check = check,
    .encode = encode,
    .time = time_code,
    .velocity = velocity,
};
