/* ReinFlow's ShortCutFlowMLP: ResidualMLP of [action, embedding]. The embedding is the sum of one of the time and the
 * step size and one of the condition. A product distributes over that sum, so each term's product is computed once.
 */
#include "nn/mlp.h"

static const char trunk[] = "network.vel_head";

static struct mf_layer first(struct mf_graph *g, const struct mf_net_spec *s)
{
    return mf_residual_first(g, MF_GROUP_POLICY, trunk, s->D + s->time_dim, s->hidden[0]);
}

static int check(const struct mf_net_spec *s, struct mf_err *err)
{
    const int width = mf_condition_width(s);
    if (mf_sinusoid_check(s->time_dim, err))
        return err->code;
    if (width != s->time_dim)
        return mf_err_set(
            err, MF_EUSAGE,
            "shortcut_mlp adds its condition (%d wide) to policy.time_dim=%d: end policy.cond_hidden with %d", width,
            s->time_dim, s->time_dim);
    return mf_residual_check("policy.hidden of shortcut_mlp", s->n_hidden, s->hidden, err);
}

static void encode(struct mf_graph *g, const struct mf_net_spec *s, struct mf_share *c)
{
    struct mf_layer l = first(g, s);
    c->embed = mf_condition(g, s, "network.cond_emb", c->obs);
    c->part[0] = mf_linear(g, c->embed, l.W, s->D, l.b, MF_NONE, MF_NONE, MF_ACT_NONE);
}

static struct mf_share time_code(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val t, struct mf_val d)
{
    int e = s->time_dim;
    struct mf_layer l = first(g, s);
    struct mf_layer in = mf_layer(g, MF_GROUP_POLICY, "network.t_emb.0", 2 * e, e);
    struct mf_layer out = mf_layer(g, MF_GROUP_POLICY, "network.t_emb.2", e, e);
    struct mf_val td = mf_concat(g, 2, (struct mf_val[]){mf_sinusoid(g, t, 1, e), mf_sinusoid(g, d, 1, e)});
    struct mf_share c = {.obs = MF_NONE};
    c.embed = mf_layer_apply(g, out, mf_layer_apply(g, in, td, MF_ACT_MISH), MF_ACT_NONE);
    c.part[0] = mf_linear(g, c.embed, l.W, s->D, -1, MF_NONE, MF_NONE, MF_ACT_NONE);
    return c;
}

static struct mf_val velocity(struct mf_graph *g, const struct mf_net_spec *s, const struct mf_share *obs,
                              const struct mf_share *time, struct mf_val x)
{
    struct mf_layer l = first(g, s);
    struct mf_val y = mf_linear(g, x, l.W, 0, -1, time->part[0], obs->part[0], MF_ACT_NONE);
    return mf_residual(g, MF_GROUP_POLICY, trunk, s->n_hidden, s->hidden, s->D, s->act, y);
}

const struct mf_net mf_net_shortcut_mlp = {
    .name = "shortcut_mlp",
    .sizes = MF_MLP_SIZES,
    .step_size = true,
    .check = check,
    .encode = encode,
    .time = time_code,
    .velocity = velocity,
};
