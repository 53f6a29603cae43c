#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "nn/encoder.h"

static const float DEPTH_SCALE =
    1 / 1.024f; /* of a fresh policy: int16 millimeters / 1024, as in ManiSkill's baselines */

int mf_encoder_find(const struct mf_encoder **encoder, const char *name, struct mf_err *err)
{
    char names[256] = "";
    for (size_t i = 0; mf_encoders[i]; i++) {
        if (!strcmp(mf_encoders[i]->name, name)) {
            *encoder = mf_encoders[i];
            return 0;
        }
        mf_list_add(names, sizeof names, ", ", mf_encoders[i]->name);
    }
    return mf_err_set(err, MF_EUSAGE, "policy.encoder=%s: no such encoder; available: %s", name, names);
}

/* The observation that holds the features of a frozen encoder. */
static bool is_encoding(const struct mf_net_spec *s, int key)
{
    return s->encoded && !strcmp(s->obs.key[key].name, MF_ENCODING);
}

bool mf_net_reads_pictures(const struct mf_net_spec *s)
{
    return !s->net->encoder && (s->encoded || mf_layout_pictures(&s->obs));
}

bool mf_net_has_encoder(const struct mf_net_spec *s)
{
    return mf_net_reads_pictures(s) && s->encoder != &mf_encoder_none;
}

int mf_encoder_state_width(const struct mf_net_spec *s)
{
    int n = 0;
    for (int i = 0; i < s->obs.n; i++)
        n += is_encoding(s, i) ? 0 : mf_obs_features(&s->obs.key[i]);
    return n;
}

static int features_width(const struct mf_net_spec *s) /* of all parts */
{
    const struct mf_feature_shape shape = s->encoder->shape(s);
    return s->encoded ? s->encoded : shape.parts * shape.width;
}

int mf_net_inputs(const struct mf_net_spec *s)
{
    if (!mf_net_reads_pictures(s))
        return s->O;
    const struct mf_feature_shape shape = s->encoder->shape(s);
    return (shape.whole ? 0 : s->n_obs_steps * mf_encoder_state_width(s)) + shape.rows * features_width(s);
}

/* ---- checks ---- */

int mf_encoder_one_size(const struct mf_net_spec *s, struct mf_err *err)
{
    const struct mf_obs *first = NULL;
    for (int i = 0; i < s->obs.n; i++) {
        const struct mf_obs *o = &s->obs.key[i];
        if (!mf_obs_is_picture(o))
            continue;
        if (first && (o->dim[0] != first->dim[0] || o->dim[1] != first->dim[1]))
            return mf_err_set(
                err, MF_EUSAGE, "policy.encoder=%s needs pictures of one size: %s has %d x %d pixels, and %s %d x %d",
                s->encoder->name, first->name, first->dim[0], first->dim[1], o->name, o->dim[0], o->dim[1]);
        first = first ? first : o;
    }
    return 0;
}

int mf_encoder_check(const struct mf_net_spec *s, struct mf_err *err)
{
    if (!mf_net_reads_pictures(s)) {
        if (s->encoder == &mf_encoder_none)
            return 0;
        if (s->net->encoder)
            return mf_err_set(err, MF_EUSAGE,
                              "policy.network=%s has an encoder of its own, so policy.encoder=%s cannot be",
                              s->net->name, s->encoder->name);
        return mf_err_set(err, MF_EUSAGE,
                          "policy.encoder=%s needs pictures: name some in policy.obs_keys, such as agentview_image",
                          s->encoder->name);
    }
    if (s->crop && s->encoder == &mf_encoder_none)
        return mf_err_set(err, MF_EUSAGE,
                          "policy.crop=%d needs an encoder of pictures: policy.encoder=none reads every pixel",
                          s->crop);
    for (int i = 0; i < s->obs.n; i++) {
        const struct mf_obs *o = &s->obs.key[i];
        if (mf_obs_is_picture(o) && o->dim[0] <= 4 && o->dim[2] > 4)
            return mf_err_set(
                err, MF_EUSAGE,
                "%s is (%d, %d, %d), which looks like (channels, height, width): pictures are (height, width, "
                "channels)",
                o->name, o->dim[0], o->dim[1], o->dim[2]);
        if (mf_obs_is_picture(o) && (s->crop > o->dim[0] || s->crop > o->dim[1]))
            return mf_err_set(err, MF_EUSAGE, "policy.crop=%d is larger than the %d x %d pixels of %s", s->crop,
                              o->dim[0], o->dim[1], o->name);
    }
    return s->encoder->check ? s->encoder->check(s, err) : 0;
}

/* ---- pictures as maps ---- */

static int sides(int side, int crop)
{
    return crop ? crop : side;
}

struct mf_obs mf_encoder_picture(const struct mf_net_spec *s)
{
    struct mf_obs seen = {.u8 = false};
    for (int i = s->obs.n - 1; i >= 0; i--)
        if (mf_obs_is_picture(&s->obs.key[i]))
            seen = s->obs.key[i];
    seen.dim[0] = sides(seen.dim[0], s->crop);
    seen.dim[1] = sides(seen.dim[1], s->crop);
    return seen;
}

/* The scale or the offset of each channel, "picture.KEY.PART": part of the weights, but not trained. */
static int normalizer(struct mf_graph *g, const struct mf_obs *o, const char *part, float value)
{
    char name[128];
    snprintf(name, sizeof name, "picture.%s.%s", o->name, part);
    return mf_param_add(mf_graph_params(g), name, 1, o->dim[2], 1, MF_GROUP_BUFFER, MF_INIT_CONST, value);
}

struct mf_val mf_picture_map(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val steps, int key, float scale,
                             float offset)
{
    const struct mf_obs *o = &s->obs.key[key];
    return mf_picture(g, steps, mf_layout_column(&s->obs, o->name), o, s->crop, normalizer(g, o, "scale", scale),
                      normalizer(g, o, "offset", offset));
}

struct mf_val mf_encoder_map(struct mf_graph *g, const struct mf_encoder_input *in, int key)
{
    const bool u8 = in->s->obs.key[key].u8;
    return mf_picture_map(g, in->s, in->steps, key, u8 ? in->s->encoder->scale : DEPTH_SCALE,
                          u8 ? in->s->encoder->offset : 0);
}

struct mf_val mf_encoder_stacked(struct mf_graph *g, const struct mf_encoder_input *in)
{
    struct mf_val map[MF_OBS_KEYS];
    int n = 0;
    for (int i = 0; i < in->s->obs.n; i++)
        if (mf_obs_is_picture(&in->s->obs.key[i]))
            map[n++] = mf_encoder_map(g, in, i);
    return n == 1 ? map[0] : mf_concat(g, n, map);
}

struct mf_val mf_encoder_flat(struct mf_graph *g, struct mf_val map, int n)
{
    return mf_reshape(g, mf_transpose(g, map, n), n, mf_rows(g, map) / n * mf_cols(g, map));
}

struct mf_val mf_conv_onto(struct mf_graph *g, enum mf_group group, const char *prefix, struct mf_val map,
                           const struct mf_patch *how, int out, bool bias, struct mf_val more, enum mf_act act)
{
    struct mf_params *ps = mf_graph_params(g);
    const int in = mf_cols(g, map);
    const float a = (float)(1 / sqrt((double)in * how->kh * how->kw));
    char name[128];
    snprintf(name, sizeof name, "%s.weight", prefix);
    const int W = mf_param_add_conv(ps, name, out, how->kh, how->kw, in, group, a);
    snprintf(name, sizeof name, "%s.bias", prefix);
    const int b = bias ? mf_param_add(ps, name, 1, out, 1, group, MF_INIT_UNIFORM, a) : -1;
    const bool point = how->kh == 1 && how->kw == 1 && how->stride == 1 && how->pad == 0;
    return mf_linear(g, point ? map : mf_im2col(g, map, how), W, 0, b, more, MF_NONE, act);
}

struct mf_val mf_conv(struct mf_graph *g, enum mf_group group, const char *prefix, struct mf_val map,
                      const struct mf_patch *how, int out, enum mf_act act)
{
    return mf_conv_onto(g, group, prefix, map, how, out, true, MF_NONE, act);
}

/* ---- the observation as a network reads it ---- */

struct mf_val mf_encoder_states(struct mf_graph *g, const struct mf_encoder_input *in)
{
    struct mf_val part[MF_OBS_KEYS];
    int n = 0, at = 0;
    for (int i = 0; i < in->s->obs.n; at += mf_obs_size(&in->s->obs.key[i++]))
        if (!mf_obs_is_picture(&in->s->obs.key[i]) && !is_encoding(in->s, i))
            part[n++] = mf_slice_cols(g, in->steps, at, mf_obs_size(&in->s->obs.key[i]));
    return n == 1 ? part[0] : mf_concat(g, n, part);
}

/* Step by step, in the order of the keys: the features of a picture stand in its place, those of all
 * pictures in the place of the first. */
static struct mf_val join_steps(struct mf_graph *g, const struct mf_encoder_input *in, struct mf_val features)
{
    const struct mf_net_spec *s = in->s;
    const struct mf_feature_shape shape = s->encoder->shape(s);
    const int parts = s->encoded ? 1 : shape.parts, width = mf_cols(g, features) / parts;
    struct mf_val part[MF_OBS_KEYS];
    int n = 0, used = 0, at = 0;
    for (int i = 0; i < s->obs.n; at += mf_obs_size(&s->obs.key[i++])) {
        if (!mf_obs_is_picture(&s->obs.key[i]) && !is_encoding(s, i))
            part[n++] = mf_slice_cols(g, in->steps, at, mf_obs_size(&s->obs.key[i]));
        else if (used < parts)
            part[n++] = mf_slice_cols(g, features, width * used++, width);
    }
    struct mf_val all = n == 1 ? part[0] : mf_concat(g, n, part);
    return mf_reshape(g, all, 1, mf_rows(g, all) * mf_cols(g, all));
}

static struct mf_encoder_input input_of(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val raw, bool critic)
{
    return (struct mf_encoder_input){.s = s,
                                     .steps = mf_reshape(g, raw, s->n_obs_steps, s->obs.dim),
                                     .critic = critic,
                                     .group = critic ? MF_GROUP_CRITIC : MF_GROUP_ENCODER};
}

struct mf_val mf_net_states(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val raw)
{
    const int S = mf_encoder_state_width(s);
    const struct mf_encoder_input in = input_of(g, s, raw, false);
    return S ? mf_reshape(g, mf_encoder_states(g, &in), 1, s->n_obs_steps * S) : MF_NONE;
}

/* The features, then the other observations step by step. whole: without these. */
static struct mf_val join_ahead(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val raw,
                                struct mf_val features, bool whole)
{
    struct mf_val part[2] = {mf_reshape(g, features, 1, mf_rows(g, features) * mf_cols(g, features)),
                             whole ? MF_NONE : mf_net_states(g, s, raw)};
    return part[1].id ? mf_concat(g, 2, part) : part[0];
}

void mf_encode_pictures(struct mf_graph *g, const struct mf_net_spec *s, bool critic, bool frozen,
                        struct mf_share *share)
{
    const struct mf_encoder_input in = input_of(g, s, share->raw, critic);
    struct mf_val features = s->encoded ? mf_slice_cols(g, in.steps, mf_layout_column(&s->obs, MF_ENCODING), s->encoded)
                                        : s->encoder->encode(g, &in);
    if (frozen)
        features = mf_detach(g, features);
    share->features[0] = features;
    const struct mf_feature_shape shape = s->encoder->shape(s);
    share->obs =
        shape.ahead || shape.whole ? join_ahead(g, s, share->raw, features, shape.whole) : join_steps(g, &in, features);
}

int mf_encoder_encoding(const struct mf_net_spec *s, struct mf_obs *of_step, int *n)
{
    const struct mf_feature_shape shape = s->encoder->shape(s);
    int first = -1, last = -1;
    for (int i = 0; i < s->obs.n; i++)
        if (mf_obs_is_picture(&s->obs.key[i])) {
            first = first < 0 ? i : first;
            last = i;
        }
    *n = last - first + 1;
    *of_step = (struct mf_obs){.dim = {shape.parts * shape.width}};
    const bool shared = s->critic_encoder == MF_CRITIC_SHARED; /* the critic's own encoder needs the pictures */
    return shape.rows == s->n_obs_steps && *n == mf_layout_pictures(&s->obs) && shared ? first : -1;
}
