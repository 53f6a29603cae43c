#include "nn/unet.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "nn/encoder.h"
#include "nn/mlp.h"

#define NET "velocity_net.unet."
enum { BLOCKS_MAX = 4 * MF_DIMS_MAX }; /* residual blocks: two a level down, two in the middle, two a level up */

static const float norm_eps = 1e-5f;

struct block {
    char name[64]; /* "velocity_net.unet.down_modules.0.1" */
    int in, out;
};

static void add_block(struct block *b, int *n, const char *where, int level, int second, int in, int out)
{
    if (level < 0)
        snprintf(b[*n].name, sizeof b->name, NET "%s.%d", where, second);
    else
        snprintf(b[*n].name, sizeof b->name, NET "%s.%d.%d", where, level, second);
    b[*n].in = in;
    b[(*n)++].out = out;
}

/* In the order in which they run. */
static int blocks_of(const struct mf_net_spec *s, struct block b[BLOCKS_MAX])
{
    int n = 0, last = s->n_down - 1;
    for (int i = 0; i <= last; i++)
        for (int j = 0; j < 2; j++)
            add_block(b, &n, "down_modules", i, j, j ? s->down[i] : i ? s->down[i - 1] : s->D / s->horizon, s->down[i]);
    for (int j = 0; j < 2; j++)
        add_block(b, &n, "mid_modules", -1, j, s->down[last], s->down[last]);
    for (int i = 0; i < last; i++)
        for (int j = 0; j < 2; j++)
            add_block(b, &n, "up_modules", i, j, j ? s->down[last - i - 1] : 2 * s->down[last - i],
                      s->down[last - i - 1]);
    return n;
}

int mf_unet_check(const struct mf_net_spec *s, struct mf_err *err)
{
    if (mf_sinusoid_check(s->time_dim, err))
        return err->code;
    if (s->n_down < 1)
        return mf_err_set(err, MF_EUSAGE, "policy.down_dims=[]: a U-Net has at least one level");
    for (int i = 0; i < s->n_down; i++)
        if (s->n_groups < 1 || s->down[i] % s->n_groups)
            return mf_err_set(err, MF_EUSAGE,
                              "policy.n_groups=%d must divide every width of policy.down_dims, and does not divide %d",
                              s->n_groups, s->down[i]);
    if (s->kernel % 2 == 0)
        return mf_err_set(err, MF_EUSAGE, "policy.kernel_size=%d must be odd", s->kernel);
    int halves = 1 << (s->n_down - 1);
    if (s->horizon % halves)
        return mf_err_set(err, MF_EUSAGE,
                          "policy.horizon=%d is not divisible by %d: the %d levels of policy.down_dims halve it %d "
                          "times, so give policy.horizon=%d",
                          s->horizon, halves, s->n_down, s->n_down - 1, (s->horizon / halves + 1) * halves);
    return 0;
}

/* ---- FiLM ---- */

/* Block b's cond_encoder.1, over Mish(time, observation), from x's columns [from, ..) alone. The time's part and the
 * observation's are summed: each is computed once for all of its uses. */
static struct mf_val film_part(struct mf_graph *g, const struct mf_net_spec *s, const struct block *b, struct mf_val x,
                               int from, bool bias)
{
    char name[128];
    snprintf(name, sizeof name, "%.63s.cond_encoder.1", b->name);
    struct mf_layer l = mf_layer(g, MF_GROUP_POLICY, name, s->time_dim + mf_net_inputs(s), 2 * b->out);
    return mf_linear(g, x, l.W, from, bias ? l.b : -1, MF_NONE, MF_NONE, MF_ACT_NONE);
}

void mf_unet_encode(struct mf_graph *g, const struct mf_net_spec *s, struct mf_share *obs)
{
    struct block b[BLOCKS_MAX];
    int n = blocks_of(s, b);
    struct mf_val x = mf_activate(g, obs->obs, MF_ACT_MISH);
    obs->embed = obs->obs;
    for (int i = 0; i < n; i++)
        obs->part[i] = film_part(g, s, &b[i], x, s->time_dim, false);
}

struct mf_val mf_unet_time(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val t)
{
    int e = s->time_dim;
    struct mf_layer up = mf_layer(g, MF_GROUP_POLICY, NET "diffusion_step_encoder.1", e, 4 * e);
    struct mf_layer down = mf_layer(g, MF_GROUP_POLICY, NET "diffusion_step_encoder.3", 4 * e, e);
    struct mf_val x = mf_layer_apply(g, up, mf_sinusoid(g, t, 100, e), MF_ACT_MISH);
    return mf_layer_apply(g, down, x, MF_ACT_NONE);
}

struct mf_share mf_unet_film(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val time)
{
    struct block b[BLOCKS_MAX];
    int n = blocks_of(s, b);
    struct mf_share c = {.embed = time};
    struct mf_val x = mf_activate(g, time, MF_ACT_MISH);
    for (int i = 0; i < n; i++)
        c.part[i] = film_part(g, s, &b[i], x, 0, true);
    return c;
}

/* ---- the velocity ---- */

/* A convolution's or norm's parameter, name.{weight,bias}. */
struct conv {
    int W, b;
};

static struct conv conv_params(struct mf_graph *g, const char *name, int rows, int cols, int out, int kernel)
{
    struct mf_params *ps = mf_graph_params(g);
    char full[128];
    float a = (float)(1.0 / sqrt(cols)); /* as PyTorch: fan-in is the second dimension times the kernel */
    struct conv c;
    snprintf(full, sizeof full, "%s.weight", name);
    c.W = mf_param_add_kernel(ps, full, rows, cols, kernel, MF_GROUP_POLICY, a);
    snprintf(full, sizeof full, "%s.bias", name);
    c.b = mf_param_add(ps, full, 1, out, 1, MF_GROUP_POLICY, MF_INIT_UNIFORM, a);
    return c;
}

/* Conv1d of k chunks (k*T, in), plus `more` unless it is MF_NONE. */
static struct mf_val conv(struct mf_graph *g, const char *name, struct mf_val x, int k, int out, int kernel, int stride,
                          struct mf_val more)
{
    struct conv c = conv_params(g, name, out, mf_cols(g, x) * kernel, out, kernel);
    if (kernel > 1)
        x = mf_unfold(g, x, &(struct mf_slide){k, kernel, stride, kernel / 2});
    return mf_linear(g, x, c.W, 0, c.b, more, MF_NONE, MF_ACT_NONE);
}

/* ConvTranspose1d with kernel 4, stride 2, padding 1: twice the rows. */
static struct mf_val grow(struct mf_graph *g, const char *name, struct mf_val x, int k)
{
    int n = mf_cols(g, x);
    struct conv c = conv_params(g, name, n, n * 4, n, 4);
    x = mf_fold(g, mf_linear_transposed(g, x, c.W), &(struct mf_slide){k, 4, 2, 1});
    return mf_add(g, x, mf_param_value(g, c.b));
}

/* Conv1d, group norm, Mish: NAME.block.{0,1}. */
static struct mf_val conv_block(struct mf_graph *g, const struct mf_net_spec *s, const char *name, struct mf_val x,
                                int k, int out)
{
    struct mf_params *ps = mf_graph_params(g);
    char full[128];
    snprintf(full, sizeof full, "%s.block.0", name);
    x = conv(g, full, x, k, out, s->kernel, 1, MF_NONE);
    snprintf(full, sizeof full, "%s.block.1.weight", name);
    int W = mf_param_add(ps, full, 1, out, 1, MF_GROUP_POLICY, MF_INIT_CONST, 1);
    snprintf(full, sizeof full, "%s.block.1.bias", name);
    int b = mf_param_add(ps, full, 1, out, 1, MF_GROUP_POLICY, MF_INIT_CONST, 0);
    return mf_activate(g, mf_group_norm(g, x, k, s->n_groups, W, b, norm_eps), MF_ACT_MISH);
}

struct pass { /* a forward pass of k chunks; at: the next block */
    struct mf_graph *g;
    const struct mf_net_spec *s;
    const struct mf_share *obs, *time;
    int k, at;
    struct block block[BLOCKS_MAX];
};

static struct mf_val residual(struct pass *w, struct mf_val x)
{
    const struct block *b = &w->block[w->at];
    struct mf_graph *g = w->g;
    struct mf_val film = mf_add(g, w->time->part[w->at], w->obs->part[w->at]); /* (k, 2 out): a scale, a shift */
    char name[128];
    w->at++;
    snprintf(name, sizeof name, "%.63s.blocks.0", b->name);
    struct mf_val y = conv_block(g, w->s, name, x, w->k, b->out);
    y = mf_gate(g, mf_slice_cols(g, film, b->out, b->out), y, film, 0);
    snprintf(name, sizeof name, "%.63s.blocks.1", b->name);
    y = conv_block(g, w->s, name, y, w->k, b->out);
    if (b->in == b->out)
        return mf_add(g, y, x);
    snprintf(name, sizeof name, "%.63s.residual_conv", b->name);
    return conv(g, name, x, w->k, b->out, 1, 1, y);
}

static struct mf_val two(struct pass *w, struct mf_val x)
{
    return residual(w, residual(w, x));
}

struct mf_val mf_unet_velocity(struct mf_graph *g, const struct mf_net_spec *s, const struct mf_share *obs,
                               const struct mf_share *time, struct mf_val x)
{
    int k = mf_rows(g, x), A = s->D / s->horizon, last = s->n_down - 1;
    struct pass w = {.g = g, .s = s, .obs = obs, .time = time, .k = k};
    struct mf_val kept[MF_DIMS_MAX];
    char name[64];
    blocks_of(s, w.block);
    x = mf_reshape(g, x, k * s->horizon, A);
    for (int i = 0; i <= last; i++) {
        x = kept[i] = two(&w, x);
        snprintf(name, sizeof name, NET "down_modules.%d.2.conv", i);
        if (i < last)
            x = conv(g, name, x, k, s->down[i], 3, 2, MF_NONE);
    }
    x = two(&w, x);
    for (int i = 0; i < last; i++) {
        x = two(&w, mf_concat(g, 2, (struct mf_val[]){x, kept[last - i]}));
        snprintf(name, sizeof name, NET "up_modules.%d.2.conv", i);
        x = grow(g, name, x, k);
    }
    x = conv_block(g, s, NET "final_conv.0", x, k, s->down[0]);
    return mf_reshape(g, conv(g, NET "final_conv.1", x, k, A, 1, 1, MF_NONE), k, s->D);
}
