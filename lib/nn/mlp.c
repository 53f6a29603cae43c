#include "nn/mlp.h"

#include <math.h>
#include <stdio.h>

#include "nn/encoder.h"

static struct mf_layer layer(struct mf_graph *g, enum mf_group group, const char *prefix, int in, int out,
                             enum mf_init init, float weight, float bias)
{
    struct mf_params *ps = mf_graph_params(g);
    char name[128];
    struct mf_layer l;
    snprintf(name, sizeof name, "%s.weight", prefix);
    l.W = mf_param_add(ps, name, out, in, 2, group, init, weight);
    snprintf(name, sizeof name, "%s.bias", prefix);
    l.b = mf_param_add(ps, name, 1, out, 1, group, bias > 0 ? MF_INIT_UNIFORM : MF_INIT_CONST, bias);
    return l;
}

struct mf_layer mf_layer(struct mf_graph *g, enum mf_group group, const char *prefix, int in, int out)
{
    const float a = (float)(1.0 / sqrt(in));
    return layer(g, group, prefix, in, out, MF_INIT_UNIFORM, a, a);
}

struct mf_layer mf_layer_ortho(struct mf_graph *g, enum mf_group group, const char *prefix, int in, int out, float gain)
{
    return layer(g, group, prefix, in, out, MF_INIT_ORTHO, gain, 0);
}

struct mf_val mf_layer_apply(struct mf_graph *g, struct mf_layer l, struct mf_val x, enum mf_act act)
{
    return mf_linear(g, x, l.W, 0, l.b, MF_NONE, MF_NONE, act);
}

struct mf_val mf_mlp(struct mf_graph *g, enum mf_group group, const char *prefix, int n, const int *dims,
                     enum mf_act act, struct mf_val x)
{
    for (int i = 0; i < n; i++) {
        char name[96];
        snprintf(name, sizeof name, "%s.moduleList.%d.linear_1", prefix, i);
        struct mf_layer l = mf_layer(g, group, name, mf_cols(g, x), dims[i]);
        x = mf_layer_apply(g, l, x, i < n - 1 ? act : MF_ACT_NONE);
    }
    return x;
}

struct mf_layer mf_residual_first(struct mf_graph *g, enum mf_group group, const char *prefix, int in, int hidden)
{
    char name[96];
    snprintf(name, sizeof name, "%s.layers.0", prefix);
    return mf_layer(g, group, name, in, hidden);
}

struct mf_val mf_residual(struct mf_graph *g, enum mf_group group, const char *prefix, int n_hidden, const int *hidden,
                          int out, enum mf_act act, struct mf_val y)
{
    char name[96];
    int blocks = (n_hidden - 1) / 2, h = hidden[0];
    for (int i = 1; i <= blocks; i++) {
        snprintf(name, sizeof name, "%s.layers.%d.l1", prefix, i);
        struct mf_layer l1 = mf_layer(g, group, name, h, h);
        snprintf(name, sizeof name, "%s.layers.%d.l2", prefix, i);
        struct mf_layer l2 = mf_layer(g, group, name, h, h);
        struct mf_val z = mf_layer_apply(g, l1, mf_activate(g, y, act), act);
        y = mf_linear(g, z, l2.W, 0, l2.b, y, MF_NONE, MF_ACT_NONE);
    }
    snprintf(name, sizeof name, "%s.layers.%d", prefix, blocks + 1);
    return mf_layer_apply(g, mf_layer(g, group, name, h, out), y, MF_ACT_NONE);
}

struct mf_val mf_residual_velocity(struct mf_graph *g, const struct mf_net_spec *s, const char *prefix, int W,
                                   const struct mf_share *obs, const struct mf_share *time, struct mf_val x)
{
    struct mf_val y = mf_linear(g, x, W, 0, -1, time->part[0], obs->part[0], MF_ACT_NONE);
    return mf_residual(g, MF_GROUP_POLICY, prefix, s->n_hidden, s->hidden, s->D, s->act, y);
}

int mf_condition_width(const struct mf_net_spec *s)
{
    return s->n_cond ? s->cond[s->n_cond - 1] : mf_net_inputs(s);
}

struct mf_val mf_condition(struct mf_graph *g, const struct mf_net_spec *s, const char *prefix, struct mf_val obs)
{
    return s->n_cond ? mf_mlp(g, MF_GROUP_POLICY, prefix, s->n_cond, s->cond, s->act, obs) : obs;
}

int mf_sinusoid_check(int time_dim, struct mf_err *err)
{
    return time_dim >= 4 && time_dim % 2 == 0
               ? 0
               : mf_err_set(err, MF_EUSAGE, "policy.time_dim=%d must be even and at least 4", time_dim);
}

int mf_residual_check(const char *what, int n_hidden, const int *hidden, struct mf_err *err)
{
    bool good = n_hidden % 2 == 1;
    for (int i = 0; i < n_hidden; i++)
        good = good && hidden[i] > 0 && hidden[i] == hidden[0];
    return good ? 0
                : mf_err_set(
                      err, MF_EUSAGE,
                      "%s is a residual MLP: it needs an odd number of hidden layers of one width, as [256,256,256]",
                      what);
}
