/* ResNet-18 (He et al., 2016) as policies have it: one of its own for each camera, with group norms, or with biases
 * where import has folded batch norms into the convolutions; then the mean of each channel, or a spatial softmax (Finn
 * et al., 2016): of each of some heat maps the expected place, and a Linear with a ReLU.
 *
 * Names are those of diffusion policy's two encoders: with a spatial softmax robomimic's, else the plain ones.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nn/encoder.h"
#include "nn/mlp.h"

enum { STAGES = 4, NAME = 57 /* bytes of a picture's name: those of its parameters fit into a checkpoint */ };

static const float norm_eps = 1e-5f;

static int check(const struct mf_net_spec *s, struct mf_err *err)
{
    if (s->n_resnet != STAGES)
        return mf_err_set(err, MF_EUSAGE, "policy.resnet_channels needs %d widths, not %d", STAGES, s->n_resnet);
    for (int i = 0; i < STAGES && s->encoder_group; i++)
        if (s->resnet[i] % s->encoder_group)
            return mf_err_set(err, MF_EUSAGE,
                              "policy.encoder_group=%d must divide every width of policy.resnet_channels, and does not "
                              "divide %d",
                              s->encoder_group, s->resnet[i]);
    for (int i = 0; i < s->obs.n; i++)
        if (mf_obs_is_picture(&s->obs.key[i]) && strlen(s->obs.key[i].name) >= NAME)
            return mf_err_set(err, MF_EUSAGE,
                              "policy.encoder=resnet18 has parameters named by their picture, and %s is longer than %d "
                              "bytes",
                              s->obs.key[i].name, NAME - 1);
    return mf_encoder_one_size(s, err);
}

static bool is_spatial(const struct mf_net_spec *s)
{
    return s->resnet_head == MF_RESNET_SPATIAL;
}

static struct mf_feature_shape shape(const struct mf_net_spec *s)
{
    return (struct mf_feature_shape){.rows = s->n_obs_steps,
                                     .parts = mf_layout_pictures(&s->obs),
                                     .width = is_spatial(s) ? s->encoder_dim : s->resnet[STAGES - 1]};
}

struct one_camera { /* over the maps of one camera */
    struct mf_graph *g;
    const struct mf_encoder_input *in;
    char at[112]; /* "obs_encoder.obs_nets.KEY.nets." */
};

static struct one_camera one_camera_of(struct mf_graph *g, const struct mf_encoder_input *in, const char *key)
{
    struct one_camera p = {g, in, ""};
    snprintf(p.at, sizeof p.at,
             is_spatial(in->s) ? "%sobs_encoder.obs_nets.%s.nets." : "%sobs_encoder.key_model_map.%s.",
             in->critic ? "critic." : "", key);
    return p;
}

static int buffer(const struct one_camera *p, const char *name, int cols, int rank, enum mf_init init, float a)
{
    char full[128];
    snprintf(full, sizeof full, "%s%s", p->at, name);
    return mf_param_add(mf_graph_params(p->g), full, 1, cols, rank, MF_GROUP_BUFFER, init, a);
}

/* act(norm(convolution x) + more). */
static struct mf_val normed(const struct one_camera *p, const char *conv, const char *norm, struct mf_val x,
                            const struct mf_patch *how, int out, struct mf_val more, enum mf_act act)
{
    const struct mf_net_spec *s = p->in->s;
    struct mf_params *ps = mf_graph_params(p->g);
    char name[128];
    snprintf(name, sizeof name, "%s%s", p->at, conv);
    if (s->encoder_group == 0)
        return mf_conv_onto(p->g, p->in->group, name, x, how, out, true, more, act);
    x = mf_conv_onto(p->g, p->in->group, name, x, how, out, false, MF_NONE, MF_ACT_NONE);
    snprintf(name, sizeof name, "%s%s.weight", p->at, norm);
    const int W = mf_param_add(ps, name, 1, out, 1, p->in->group, MF_INIT_CONST, 1);
    snprintf(name, sizeof name, "%s%s.bias", p->at, norm);
    const int b = mf_param_add(ps, name, 1, out, 1, p->in->group, MF_INIT_CONST, 0);
    x = mf_group_norm(p->g, x, s->n_obs_steps, out / s->encoder_group, W, b, norm_eps);
    if (!more.id && act == MF_ACT_NONE)
        return x;
    return mf_sum(p->g, more.id ? 2 : 1, (struct mf_val[]){x, more}, act);
}

/* The names of conv and norm number i of block `b` of a stage. */
static struct mf_val inside(const struct one_camera *p, const char *block, const char *conv, const char *norm,
                            struct mf_val x, const struct mf_patch *how, int out, struct mf_val more, enum mf_act act)
{
    char names[2][64];
    snprintf(names[0], sizeof *names, "%s.%s", block, conv);
    snprintf(names[1], sizeof *names, "%s.%s", block, norm);
    return normed(p, names[0], names[1], x, how, out, more, act);
}

/* Two 3x3 convolutions, the first with the stride, and the shortcut. */
static struct mf_val block(const struct one_camera *p, const char *name, struct mf_val x, struct mf_patch *at, int out)
{
    struct mf_patch first = *at, point = *at, second;
    first.kh = first.kw = 3, first.pad = 1;
    point.kh = point.kw = 1, point.pad = 0;
    struct mf_val y = inside(p, name, "conv1", "bn1", x, &first, out, MF_NONE, MF_ACT_RELU);
    second = first;
    second.H = mf_patch_down(&first), second.W = mf_patch_across(&first), second.stride = 1;
    if (at->stride > 1 || mf_cols(p->g, x) != out)
        x = inside(p, name, "downsample.0", "downsample.1", x, &point, out, MF_NONE, MF_ACT_NONE);
    *at = second;
    return inside(p, name, "conv2", "bn2", y, &second, out, x, MF_ACT_RELU);
}

/* The map of the last stage; *at has its sides. */
static struct mf_val trunk(const struct one_camera *p, struct mf_val x, struct mf_patch *at)
{
    const struct mf_net_spec *s = p->in->s;
    const bool named = !is_spatial(s);
    struct mf_patch stem = {.H = at->H, .W = at->W, .kh = 7, .kw = 7, .stride = 2, .pad = 3};
    x = normed(p, named ? "conv1" : "0.nets.0", named ? "bn1" : "0.nets.1", x, &stem, s->resnet[0], MF_NONE,
               MF_ACT_RELU);
    struct mf_patch pool = {
        .H = mf_patch_down(&stem), .W = mf_patch_across(&stem), .kh = 3, .kw = 3, .stride = 2, .pad = 1};
    x = mf_max_pool2d(p->g, x, &pool);
    *at = (struct mf_patch){.H = mf_patch_down(&pool), .W = mf_patch_across(&pool)};
    for (int i = 0; i < 2 * STAGES; i++) {
        char name[32];
        snprintf(name, sizeof name, named ? "layer%d.%d" : "0.nets.%d.%d", i / 2 + (named ? 1 : 4), i % 2);
        at->stride = i > 1 && i % 2 == 0 ? 2 : 1;
        x = block(p, name, x, at, s->resnet[i / 2]);
    }
    return x;
}

/* Of each heat map the expected place of a softmax over its pixels, x and y in [-1, 1]: one head of attention, whose
 * keys are the pixels and whose queries are the weights of a 1x1 convolution. Its bias does not change a softmax, and
 * is kept for the file. */
static struct mf_val places(const struct one_camera *p, struct mf_val map, const struct mf_patch *at)
{
    const struct mf_net_spec *s = p->in->s;
    const int steps = s->n_obs_steps, C = mf_cols(p->g, map), n = at->H * at->W;
    const float a = 1 / sqrtf((float)C);
    char name[128];
    snprintf(name, sizeof name, "%s1.nets.weight", p->at);
    const int W = mf_param_add_conv(mf_graph_params(p->g), name, s->keypoints, 1, 1, C, p->in->group, a);
    snprintf(name, sizeof name, "%s1.nets.bias", p->at);
    mf_param_add(mf_graph_params(p->g), name, 1, s->keypoints, 1, p->in->group, MF_INIT_CONST, 0);
    buffer(p, "1.temperature", 1, 1, MF_INIT_CONST, 1);
    const int x = buffer(p, "1.pos_x", n, 2, MF_INIT_GRID_X, (float)at->W),
              y = buffer(p, "1.pos_y", n, 2, MF_INIT_GRID_Y, (float)at->W);
    struct mf_val grid[] = {mf_reshape(p->g, mf_param_value(p->g, x), n, 1),
                            mf_reshape(p->g, mf_param_value(p->g, y), n, 1)},
                  all[64];
    all[0] = mf_concat(p->g, 2, grid);
    for (int i = 1; i < steps; i++)
        all[i] = all[0];
    struct mf_val keys = mf_concat(p->g, 2, (struct mf_val[]){map, steps > 1 ? mf_stack(p->g, steps, all) : all[0]});
    struct mf_val queries = mf_param_value(p->g, W), every[64];
    for (int i = 0; i < steps; i++)
        every[i] = queries;
    if (steps > 1)
        queries = mf_stack(p->g, steps, every);
    const struct mf_attend how = {.heads = 1, .blocks = steps, .dim = C, .out = 2, .at = {0, 0, C}, .scale = 1};
    return mf_reshape(p->g, mf_attention(p->g, queries, keys, keys, MF_NONE, &how), steps, 2 * s->keypoints);
}

static struct mf_val features(const struct one_camera *p, int key)
{
    const struct mf_net_spec *s = p->in->s;
    const struct mf_obs o = mf_encoder_picture(s);
    struct mf_patch at = {.H = o.dim[0], .W = o.dim[1]};
    struct mf_val map = trunk(p, mf_encoder_map(p->g, p->in, key), &at);
    char name[128];
    if (!is_spatial(s))
        return mf_pool(p->g, map, s->n_obs_steps, MF_POOL_MEAN);
    map = places(p, map, &at);
    snprintf(name, sizeof name, "%s3", p->at);
    return mf_layer_apply(p->g, mf_layer(p->g, p->in->group, name, mf_cols(p->g, map), s->encoder_dim), map,
                          MF_ACT_RELU);
}

static struct mf_val encode(struct mf_graph *g, const struct mf_encoder_input *in)
{
    struct mf_val part[MF_OBS_KEYS];
    int n = 0;
    for (int i = 0; i < in->s->obs.n; i++)
        if (mf_obs_is_picture(&in->s->obs.key[i])) {
            const struct one_camera p = one_camera_of(g, in, in->s->obs.key[i].name);
            part[n++] = features(&p, i);
        }
    return n == 1 ? part[0] : mf_concat(g, n, part);
}

const struct mf_encoder mf_encoder_resnet18 = {
    .name = "resnet18",
    .sizes = MF_ENCODER_SIZES | MF_SIZE(encoder_output_dim) | MF_SIZE(resnet_channels) | MF_SIZE(encoder_group) |
             MF_SIZE(resnet_head) | MF_SIZE(keypoints),
    .scale = 2 / 255.f,
    .offset = -1,
    .check = check,
    .shape = shape,
    .encode = encode,
};
