/* No encoder: the network sees every pixel, row by row, as a number. */
#include "nn/encoder.h"

static struct mf_features shape(const struct mf_net_spec *s)
{
    struct mf_features code = {.rows = s->n_obs_steps, .parts = 1};
    for (int i = 0; i < s->obs.n; i++)
        if (mf_obs_is_picture(&s->obs.key[i]))
            code.width += mf_obs_count(&s->obs.key[i]);
    return code;
}

static struct mf_val encode(struct mf_graph *g, const struct mf_eye *eye)
{
    struct mf_val picture[MF_OBS_KEYS];
    int n = 0;
    for (int i = 0; i < eye->s->obs.n; i++)
        if (mf_obs_is_picture(&eye->s->obs.key[i]))
            picture[n++] = mf_reshape(g, mf_eye_map(g, eye, i), eye->s->n_obs_steps, mf_obs_count(&eye->s->obs.key[i]));
    return n == 1 ? picture[0] : mf_concat(g, n, picture);
}

const struct mf_encoder mf_encoder_none = {
    .name = "none",
    .scale = 2 / 255.f,
    .offset = -1,
    .shape = shape,
    .encode = encode,
};
