#include "nn/dp3.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nn/mlp.h"

static const float eps = 1e-5f;

/* The cloud among the observations, or its encoding; -1: none. */
static int cloud_of(const struct mf_net_spec *s)
{
    for (int i = 0; i < s->obs.n; i++)
        if (s->encoded ? !strcmp(s->obs.key[i].name, MF_ENCODING) : mf_obs_rank(&s->obs.key[i]) == 2)
            return i;
    return -1;
}

static int channels(const struct mf_net_spec *s)
{
    int c = s->obs.key[cloud_of(s)].dim[1];
    return c == 6 && !s->color ? 3 : c;
}

int mf_dp3_check(const struct mf_net_spec *s, struct mf_err *err)
{
    int clouds = 0, states = 0, at = cloud_of(s);
    for (int i = 0; i < s->obs.n; i++) {
        const struct mf_obs *o = &s->obs.key[i];
        if (o->u8 || mf_obs_rank(o) > 2)
            return mf_err_set(err, MF_EUSAGE, "policy.network=%s encodes points and states, and %s is an image",
                              s->net->name, o->name);
        clouds += mf_obs_rank(o) == 2;
        states += mf_obs_rank(o) == 1;
    }
    if (clouds != 1 || states == 0)
        return mf_err_set(
            err, MF_EUSAGE,
            "policy.network=%s needs one point cloud and at least one state, not %d and %d: choose them by "
            "policy.obs_keys",
            s->net->name, clouds, states);
    if (s->obs.key[at].dim[1] != 3 && s->obs.key[at].dim[1] != 6)
        return mf_err_set(err, MF_EUSAGE,
                          "points have 3 or 6 channels (x, y, z, then colours), and those of %s have %d",
                          s->obs.key[at].name, s->obs.key[at].dim[1]);
    return 0;
}

int mf_dp3_encoding(const struct mf_net_spec *s, struct mf_obs *of_step)
{
    int at = cloud_of(s);
    *of_step = s->pointwise ? (struct mf_obs){.dim = {s->obs.key[at].dim[0], s->encoder_dim}}
                            : (struct mf_obs){.dim = {s->encoder_dim}};
    return at;
}

/* The layer norm `prefix`.{weight,bias}, then the activation. */
static struct mf_val normed(struct mf_graph *g, const char *prefix, struct mf_val x, enum mf_act act)
{
    struct mf_params *ps = mf_graph_params(g);
    char name[128];
    int n = mf_cols(g, x);
    snprintf(name, sizeof name, "%s.weight", prefix);
    int W = mf_param_add(ps, name, 1, n, 1, MF_GROUP_ENCODER, MF_INIT_CONST, 1);
    snprintf(name, sizeof name, "%s.bias", prefix);
    int b = mf_param_add(ps, name, 1, n, 1, MF_GROUP_ENCODER, MF_INIT_CONST, 0);
    struct mf_val y = mf_norm(g, x, 0, n, 1, MF_NORM_LAYER, W, b, eps);
    return act == MF_ACT_NONE ? y : mf_activate(g, y, act);
}

static struct mf_val linear(struct mf_graph *g, const char *prefix, int at, struct mf_val x, int out, enum mf_act act)
{
    char name[128];
    snprintf(name, sizeof name, "%s.%d", prefix, at);
    return mf_layer_apply(g, mf_layer(g, MF_GROUP_ENCODER, name, mf_cols(g, x), out), x, act);
}

/* (To*N, channels) -> (L, encoder_dim): three layers with norms, with colours a fourth without, and a projection. */
static struct mf_val encode_points(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val x)
{
    static const char mlp[] = "obs_encoder.extractor.mlp", last[] = "obs_encoder.extractor.final_projection";
    static const int widths[] = {64, 128, 256};
    for (int i = 0; i < 3; i++) {
        char norm[64];
        snprintf(norm, sizeof norm, "%s.%d", mlp, 3 * i + 1);
        x = normed(g, norm, linear(g, mlp, 3 * i, x, widths[i], MF_ACT_NONE), MF_ACT_RELU);
    }
    if (channels(s) == 6)
        x = linear(g, mlp, 9, x, 512, MF_ACT_NONE);
    if (!s->pointwise)
        x = mf_pool(g, x, s->n_obs_steps, MF_POOL_MAX);
    return normed(g, "obs_encoder.extractor.final_projection.1", linear(g, last, 0, x, s->encoder_dim, MF_ACT_NONE),
                  MF_ACT_NONE);
}

void mf_dp3(struct mf_graph *g, const struct mf_net_spec *s, struct mf_share *obs)
{
    struct mf_val steps = mf_reshape(g, obs->obs, s->n_obs_steps, s->obs.dim), state[MF_OBS_KEYS], points = MF_NONE;
    int n = 0, cloud = cloud_of(s), wide = s->encoded ? s->encoder_dim : s->obs.key[cloud].dim[1];
    for (int i = 0, at = 0; i < s->obs.n; at += mf_obs_size(&s->obs.key[i++])) {
        int size = mf_obs_size(&s->obs.key[i]);
        struct mf_val part = mf_slice_cols(g, steps, at, size);
        if (i == cloud)
            points = mf_reshape(g, part, s->n_obs_steps * (size / wide), wide);
        else
            state[n++] = part;
    }
    struct mf_val x = n > 1 ? mf_concat(g, n, state) : state[0];
    x = linear(g, "obs_encoder.state_mlp", 0, x, MF_STATE_DIM, MF_ACT_RELU);
    obs->features[0] = s->encoded ? points : encode_points(g, s, mf_slice_cols(g, points, 0, channels(s)));
    obs->features[1] = linear(g, "obs_encoder.state_mlp", 2, x, MF_STATE_DIM, MF_ACT_NONE);
}

/* Attention pooling of the tokens (L, F) with a learned query and MF_POOL_HEADS heads, which divide F: (1, F). */
static struct mf_val attention_pool(struct mf_graph *g, struct mf_val tokens)
{
    struct mf_params *ps = mf_graph_params(g);
    int F = mf_cols(g, tokens);
    float a = (float)sqrt(6.0 / (4 * F));
    int query = mf_param_add(ps, "attention_pool.query", 1, F, 3, MF_GROUP_CRITIC, MF_INIT_NORMAL, .02f);
    int W = mf_param_add(ps, "attention_pool.attn.in_proj_weight", 3 * F, F, 2, MF_GROUP_CRITIC, MF_INIT_UNIFORM, a);
    int b = mf_param_add(ps, "attention_pool.attn.in_proj_bias", 1, 3 * F, 1, MF_GROUP_CRITIC, MF_INIT_CONST, 0);
    struct mf_layer out = mf_layer(g, MF_GROUP_CRITIC, "attention_pool.attn.out_proj", F, F);
    struct mf_val q = mf_linear(g, mf_param_value(g, query), W, 0, b, MF_NONE, MF_NONE, MF_ACT_NONE);
    struct mf_val kv = mf_linear(g, tokens, W, 0, b, MF_NONE, MF_NONE, MF_ACT_NONE);
    struct mf_attend how = {.heads = MF_POOL_HEADS, .blocks = 1, .dim = F, .out = F, .at = {0, F, 2 * F}};
    how.scale = (float)(1 / sqrt((double)F / MF_POOL_HEADS));
    return mf_layer_apply(g, out, mf_attention(g, q, kv, kv, MF_NONE, &how), MF_ACT_NONE);
}

/* Score pooling of the tokens (L, F): their sum weighted by softmax(w tanh(V x)), (1, F) (Ilse et al., 2018, eq. 7). It
 * is one attention head with the query w. A bias does not change a softmax, so the checkpoint keeps it unused. */
static struct mf_val score_pool(struct mf_graph *g, struct mf_val tokens)
{
    struct mf_params *ps = mf_graph_params(g);
    int F = mf_cols(g, tokens), n = F / 4;
    struct mf_layer first = mf_layer(g, MF_GROUP_CRITIC, "attention_pool.attention.0", F, n);
    float a = 1 / sqrtf((float)n);
    int w = mf_param_add(ps, "attention_pool.attention.2.weight", 1, n, 2, MF_GROUP_CRITIC, MF_INIT_UNIFORM, a);
    mf_param_add(ps, "attention_pool.attention.2.bias", 1, 1, 1, MF_GROUP_BUFFER, MF_INIT_CONST, 0);
    struct mf_attend how = {.heads = 1, .blocks = 1, .dim = n, .out = F, .scale = 1};
    return mf_attention(g, mf_param_value(g, w), mf_layer_apply(g, first, tokens, MF_ACT_TANH), tokens, MF_NONE, &how);
}

struct mf_val mf_value_head(struct mf_graph *g, const struct mf_net_spec *s, int n_hidden, const int *hidden,
                            const struct mf_share *obs)
{
    struct mf_val x = mf_concat(g, 2, obs->features);
    x = s->value_pool == MF_VALUE_ATTENTION ? attention_pool(g, x)
        : s->value_pool == MF_VALUE_SCORE   ? score_pool(g, x)
                                            : mf_pool(g, x, 1, MF_POOL_MEAN);
    return mf_value_mlp(g, n_hidden, hidden, x);
}
