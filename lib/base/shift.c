#include "base/shift.h"

#include <string.h>

size_t mf_shift_room(const struct mf_layout *l)
{
    size_t most = 0;
    for (int i = 0; i < l->n; i++)
        if (mf_obs_is_picture(&l->key[i]) && (size_t)mf_obs_size(&l->key[i]) > most)
            most = (size_t)mf_obs_size(&l->key[i]);
    return most;
}

static int clamp(int x, int size)
{
    return x < 0 ? 0 : x >= size ? size - 1 : x;
}

void mf_shift_picture(const struct mf_obs *o, int dy, int dx, const float *from, float *to)
{
    const int H = o->dim[0], W = o->dim[1];
    const size_t pixel = (size_t)o->dim[2] * (o->u8 ? 1 : sizeof *from), row = (size_t)W * pixel;
    const int first = clamp(-dx, W + 1), end = clamp(W - dx, W + 1); /* the columns between come from within the row */
    for (int i = 0; i < H; i++) {
        const char *in = (const char *)from + (size_t)clamp(i + dy, H) * row;
        char *out = (char *)to + (size_t)i * row;
        for (int j = 0; j < first; j++)
            memcpy(out + (size_t)j * pixel, in, pixel);
        if (first < end)
            memcpy(out + (size_t)first * pixel, in + (size_t)(first + dx) * pixel, (size_t)(end - first) * pixel);
        for (int j = end; j < W; j++)
            memcpy(out + (size_t)j * pixel, in + row - pixel, pixel);
    }
}

/* The last place of a crop is never drawn, as in the published code. */
static int draw(const struct mf_shift *s, int size, struct mf_rng *rng)
{
    const int moved = s->reach ? (int)mf_rng_below(rng, 2 * (uint32_t)s->reach + 1) - s->reach : 0;
    if (s->crop == 0 || s->crop >= size)
        return moved;
    return moved + (int)mf_rng_below(rng, (uint32_t)(size - s->crop)) - mf_crop_center(size, s->crop);
}

void mf_shift(const struct mf_shift *s, const struct mf_layout *l, struct mf_rng rng, float *flat, float *scratch)
{
    for (int i = 0; i < l->n; flat += mf_obs_size(&l->key[i++])) {
        const struct mf_obs *o = &l->key[i];
        if (!mf_obs_is_picture(o))
            continue;
        const int dx = draw(s, o->dim[1], &rng), dy = draw(s, o->dim[0], &rng);
        memcpy(scratch, flat, (size_t)mf_obs_size(o) * sizeof *flat);
        mf_shift_picture(o, dy, dx, scratch, flat);
    }
}
