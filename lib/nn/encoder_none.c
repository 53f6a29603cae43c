/* No encoder: the network reads every pixel, row by row, as a number. */
#include "nn/encoder.h"

static struct mf_feature_shape shape(const struct mf_net_spec *s)
{
    struct mf_feature_shape all = {.rows = s->n_obs_steps, .parts = 1};
    for (int i = 0; i < s->obs.n; i++)
        if (mf_obs_is_picture(&s->obs.key[i]))
            all.width += mf_obs_count(&s->obs.key[i]);
    return all;
}

static struct mf_val encode(struct mf_graph *g, const struct mf_encoder_input *in)
{
    struct mf_val picture[MF_OBS_KEYS];
    int n = 0;
    for (int i = 0; i < in->s->obs.n; i++)
        if (mf_obs_is_picture(&in->s->obs.key[i]))
            picture[n++] =
                mf_reshape(g, mf_encoder_map(g, in, i), in->s->n_obs_steps, mf_obs_count(&in->s->obs.key[i]));
    return n == 1 ? picture[0] : mf_concat(g, n, picture);
}

const struct mf_encoder mf_encoder_none = {
    .name = "none",
    .scale = 2 / 255.f,
    .offset = -1,
    .shape = shape,
    .encode = encode,
};
