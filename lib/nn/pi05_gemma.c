/* Gemma's layers: RMS norms whose weights count from 1, rotary positions, one head of keys and values for all heads of
 * queries, and a gated MLP. In the action expert a condition modulates the norms.
 */
#include <math.h>
#include <stdio.h>

#include "nn/mlp.h"
#include "nn/pi05.h"

static const float norm_eps = 1e-6f;

struct mf_val mf_pi05_linear(struct mf_graph *g, enum mf_group group, const char *prefix, struct mf_val x, int out,
                             struct mf_val residual, enum mf_act act)
{
    char name[128];
    snprintf(name, sizeof name, "%s.weight", prefix);
    /* Of deviation 1 / sqrt(in), as Gemma's .02 is at its width. */
    int W = mf_param_add(mf_graph_params(g), name, out, mf_cols(g, x), 2, group, MF_INIT_UNIFORM,
                         (float)sqrt(3.0 / mf_cols(g, x)));
    return mf_linear(g, x, W, 0, -1, residual, MF_NONE, act);
}

/* The linear `what` of layer i. */
static struct mf_val linear(struct mf_graph *g, const struct mf_gemma *a, int i, const char *what, struct mf_val x,
                            int out, struct mf_val residual, enum mf_act act)
{
    char name[128];
    snprintf(name, sizeof name, "%slayers.%d.%s", a->root, i, what);
    return mf_pi05_linear(g, a->group, name, x, out, residual, act);
}

struct mf_val mf_gemma_modulation(struct mf_graph *g, const struct mf_gemma *a, const char *name, struct mf_val c)
{
    char path[128];
    snprintf(path, sizeof path, "%s%s.dense", a->root, name);
    return mf_layer_apply(g, mf_layer(g, a->group, path, mf_cols(g, c), 3 * a->width), c, MF_ACT_NONE);
}

struct mf_val mf_gemma_norm(struct mf_graph *g, const struct mf_gemma *a, const char *name, struct mf_val h,
                            struct mf_val m)
{
    char path[128];
    struct mf_val n = mf_norm(g, h, 0, a->width, 1, MF_NORM_RMS, -1, -1, norm_eps);
    if (m.id)
        return mf_add(g, mf_gate(g, n, n, m, 0), mf_slice_cols(g, m, a->width, a->width));
    snprintf(path, sizeof path, "%s%s.weight", a->root, name);
    int w = mf_param_add(mf_graph_params(g), path, 1, a->width, 1, a->group, MF_INIT_CONST, 0);
    return mf_gate(g, n, n, mf_param_value(g, w), 0);
}

void mf_gemma_keys(struct mf_graph *g, const struct mf_gemma *a, int i, struct mf_val n, struct mf_val *k,
                   struct mf_val *v)
{
    int D = a->s->head_dim;
    *k = mf_rope(g, linear(g, a, i, "self_attn.k_proj", n, D, MF_NONE, MF_ACT_NONE), a->waves, 1);
    *v = linear(g, a, i, "self_attn.v_proj", n, D, MF_NONE, MF_ACT_NONE);
}

/* h plus x by a modulation's gate; m MF_NONE: the linear adds h. */
static struct mf_val join(struct mf_graph *g, const struct mf_gemma *a, int i, const char *what, struct mf_val x,
                          struct mf_val h, struct mf_val m)
{
    struct mf_val y = linear(g, a, i, what, x, a->width, m.id ? MF_NONE : h, MF_ACT_NONE);
    return m.id ? mf_gate(g, h, y, m, 2 * a->width) : y;
}

struct mf_val mf_gemma_layer(struct mf_graph *g, const struct mf_gemma *a, int i, struct mf_val h, struct mf_val n,
                             const struct mf_keys *keys, int blocks, struct mf_val m1, struct mf_val m2)
{
    const int heads = a->s->heads, D = a->s->head_dim;
    const struct mf_attend how = {.heads = heads,
                                  .groups = 1,
                                  .blocks = blocks,
                                  .dim = heads * D,
                                  .out = heads * D,
                                  .scale = (float)(1 / sqrt(D))};
    char name[64];
    struct mf_val q = linear(g, a, i, "self_attn.q_proj", n, heads * D, MF_NONE, MF_ACT_NONE);
    struct mf_val o = mf_attention_to(g, mf_rope(g, q, a->waves, heads), keys, &how);
    h = join(g, a, i, "self_attn.o_proj", o, h, m1);
    snprintf(name, sizeof name, "layers.%d.post_attention_layernorm", i);
    n = mf_gemma_norm(g, a, name, h, m2);
    struct mf_val gate = linear(g, a, i, "mlp.gate_proj", n, a->mlp, MF_NONE, MF_ACT_GELU);
    struct mf_val up = linear(g, a, i, "mlp.up_proj", n, a->mlp, MF_NONE, MF_ACT_NONE);
    return join(g, a, i, "mlp.down_proj", mf_product(g, gate, up), h, m2);
}
