/* ReinFlow's ShortCutFlowMLP: ResidualMLP of [action, embedding]. The embedding is the sum of one of the time and the
 * step size and one of the condition. A product distributes over that sum, so each term's product is computed once.
 *
 * With an encoder of pictures it is ShortCutFlowViT, whose condition is of the pictures' code and an MLP over the
 * states.
 */
#include <stdio.h>

#include "nn/encoder.h"
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
    if (mf_net_has_encoder(s) && s->n_cond)
        return mf_err_set(err, MF_EUSAGE,
                          "shortcut_mlp encodes the states beside pictures by policy.state_hidden: leave "
                          "policy.cond_hidden at []");
    if (!mf_net_has_encoder(s) && width != s->time_dim)
        return mf_err_set(
            err, MF_EUSAGE,
            "shortcut_mlp adds its condition (%d wide) to policy.time_dim=%d: end policy.cond_hidden with %d", width,
            s->time_dim, s->time_dim);
    return mf_residual_check("policy.hidden of shortcut_mlp", s->n_hidden, s->hidden, err);
}

/* Two layers, `at`.0 and `at`.2. */
static struct mf_val two_layers(struct mf_graph *g, const char *at, int hidden, int out, enum mf_act act,
                                struct mf_val x)
{
    char name[64];
    snprintf(name, sizeof name, "%s.0", at);
    x = mf_layer_apply(g, mf_layer(g, MF_GROUP_POLICY, name, mf_cols(g, x), hidden), x, act);
    snprintf(name, sizeof name, "%s.2", at);
    return mf_layer_apply(g, mf_layer(g, MF_GROUP_POLICY, name, hidden, out), x, MF_ACT_NONE);
}

/* Of the pictures' code and of the states. */
static struct mf_val coded_condition(struct mf_graph *g, const struct mf_net_spec *s, const struct mf_share *c)
{
    struct mf_val code = c->features[0], states = mf_net_states(g, s, c->raw);
    struct mf_val part[2] = {mf_reshape(g, code, 1, mf_rows(g, code) * mf_cols(g, code))};
    if (states.id)
        part[1] = mf_mlp(g, MF_GROUP_POLICY, "network.prop_emb", s->n_state, s->state, s->act, states);
    return two_layers(g, "network.cond_embed", 2 * s->time_dim, s->time_dim, MF_ACT_RELU,
                      states.id ? mf_concat(g, 2, part) : part[0]);
}

static void encode(struct mf_graph *g, const struct mf_net_spec *s, struct mf_share *c)
{
    struct mf_layer l = first(g, s);
    c->embed = mf_net_has_encoder(s) ? coded_condition(g, s, c) : mf_condition(g, s, "network.cond_emb", c->obs);
    c->part[0] = mf_linear(g, c->embed, l.W, s->D, l.b, MF_NONE, MF_NONE, MF_ACT_NONE);
}

static struct mf_share time_code(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val t, struct mf_val d)
{
    int e = s->time_dim;
    const char *at = mf_net_has_encoder(s) ? "network.td_emb" : "network.t_emb";
    struct mf_layer l = first(g, s);
    struct mf_val td = mf_concat(g, 2, (struct mf_val[]){mf_sinusoid(g, t, 1, e), mf_sinusoid(g, d, 1, e)});
    struct mf_share c = {.obs = MF_NONE};
    c.embed = two_layers(g, at, e, e, MF_ACT_MISH, td);
    c.part[0] = mf_linear(g, c.embed, l.W, s->D, -1, MF_NONE, MF_NONE, MF_ACT_NONE);
    return c;
}

static struct mf_val velocity(struct mf_graph *g, const struct mf_net_spec *s, const struct mf_share *obs,
                              const struct mf_share *time, struct mf_val x)
{
    return mf_residual_velocity(g, s, trunk, first(g, s).W, obs, time, x);
}

const struct mf_net mf_net_shortcut_mlp = {
    .name = "shortcut_mlp",
    .sizes = MF_MLP_SIZES,
    .coded_sizes = MF_SIZE(state_hidden),
    .step_size = true,
    .check = check,
    .encode = encode,
    .time = time_code,
    .velocity = velocity,
};
