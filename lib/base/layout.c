#include "base/layout.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/plain.h"
#include "base/text.h"

const char *mf_obs_name_fault(const char *name)
{
    size_t n = strlen(name), taken;
    if (n == 0)
        return "is empty";
    if (n >= sizeof((struct mf_obs *)0)->name)
        return "is longer than 63 bytes";
    for (const char *s = name; *s; s += taken) {
        const size_t left = (size_t)(name + n - s);
        if (mf_control(s, left))
            return "contains a control character";
        if (!(taken = mf_utf8(s, left)))
            return "is not UTF-8";
    }
    for (const char *s = name, *end; s; s = *end ? end + 1 : NULL) {
        end = s + strcspn(s, "/");
        if (end == s || (end == s + 1 && *s == '.'))
            return "has an empty part or a '.' between its slashes";
    }
    return NULL;
}

bool mf_obs_names_clash(const char *a, const char *b)
{
    size_t x = strlen(a), y = strlen(b), n = x < y ? x : y;
    const char *longer = x < y ? b : a;
    return !memcmp(a, b, n) && (longer[n] == '/' || longer[n] == '\0');
}

int mf_obs_rank(const struct mf_obs *o)
{
    int rank = 0;
    while (rank < MF_OBS_RANK && o->dim[rank])
        rank++;
    return rank;
}

const char *mf_obs_shape(const struct mf_obs *o, char text[64])
{
    int at = snprintf(text, 64, "%s (", o->u8 ? "uint8" : "float32");
    for (int i = 0; i < mf_obs_rank(o); i++)
        at += snprintf(text + at, 64 - (size_t)at, "%s%d", i ? ", " : "", o->dim[i]);
    snprintf(text + at, 64 - (size_t)at, ")");
    return text;
}

int mf_obs_count(const struct mf_obs *o)
{
    int count = 1;
    for (int i = 0; i < mf_obs_rank(o); i++)
        count *= o->dim[i];
    return count;
}

static bool packed(const struct mf_obs *o)
{
    return o->u8 && mf_obs_is_picture(o);
}

int mf_obs_size(const struct mf_obs *o)
{
    const int count = mf_obs_count(o);
    return packed(o) ? count / 4 + (count % 4 > 0) : count;
}

int mf_obs_features(const struct mf_obs *o)
{
    return mf_obs_is_picture(o) ? 0 : mf_obs_count(o);
}

void mf_obs_pack(const struct mf_obs *o, const void *elements, float *flat)
{
    const size_t n = (size_t)mf_obs_count(o);
    const uint8_t *u8 = elements;
    if (!o->u8) {
        memcpy(flat, elements, n * sizeof *flat);
        return;
    }
    if (packed(o)) {
        flat[(n - 1) / 4] = 0;
        memcpy(flat, elements, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        flat[i] = u8[i];
}

void mf_obs_unpack(const struct mf_obs *o, const float *flat, void *elements)
{
    const size_t n = (size_t)mf_obs_count(o);
    if (o->u8 && !packed(o))
        for (size_t i = 0; i < n; i++)
            ((uint8_t *)elements)[i] = (uint8_t)flat[i];
    else
        memcpy(elements, flat, o->u8 ? n : n * sizeof *flat);
}

bool mf_obs_fits(const struct mf_obs *o)
{
    int room = MF_OBS_MAX;
    for (int i = 0; i < mf_obs_rank(o) && room; i++)
        room = o->dim[i] > 0 ? room / o->dim[i] : 0;
    return room > 0;
}

bool mf_layout_add(struct mf_layout *l, const struct mf_obs *o)
{
    if (l->n == MF_OBS_KEYS || !mf_obs_fits(o))
        return false;
    l->key[l->n++] = *o;
    l->dim += mf_obs_size(o);
    return true;
}

void mf_layout_drop(struct mf_layout *l, const char *name)
{
    const struct mf_layout all = *l;
    *l = (struct mf_layout){0};
    for (int i = 0; i < all.n; i++)
        if (strcmp(all.key[i].name, name) != 0)
            mf_layout_add(l, &all.key[i]);
}

int mf_layout_column(const struct mf_layout *l, const char *name)
{
    for (int i = 0, at = 0; i < l->n; at += mf_obs_size(&l->key[i++]))
        if (!strcmp(l->key[i].name, name))
            return at;
    return -1;
}

const struct mf_obs *mf_layout_find(const struct mf_layout *l, const char *name)
{
    for (int i = 0; i < l->n; i++)
        if (!strcmp(l->key[i].name, name))
            return &l->key[i];
    return NULL;
}

bool mf_obs_is_code(const struct mf_obs *o)
{
    const bool named = !strcmp(o->name, MF_OBS_TOKENS) || !strcmp(o->name, MF_OBS_IMAGE_MASK);
    return named && mf_obs_rank(o) == 1 && !o->u8;
}

bool mf_obs_is_cloud(const struct mf_obs *o)
{
    return mf_obs_rank(o) == 2 && !o->u8;
}

bool mf_obs_is_picture(const struct mf_obs *o)
{
    return mf_obs_rank(o) == 3;
}

int mf_layout_features(const struct mf_layout *l)
{
    int n = 0;
    for (int i = 0; i < l->n; i++)
        n += mf_obs_features(&l->key[i]);
    return n;
}

void mf_normalize(size_t n, const float *scale, const float *offset, const float *x, float *out)
{
    for (size_t j = 0; j < n; j++) {
        const double wide = (double)x[j] * (double)scale[j] + (double)offset[j];
        out[j] = fabsf(offset[j]) < MF_FAR ? x[j] * scale[j] + offset[j] : (float)wide;
    }
}

int mf_layout_state(const struct mf_layout *l, const struct mf_affine *norm, const float *flat, float *state)
{
    int n = 0, at = 0;
    for (int i = 0; i < l->n; i++) {
        const int features = mf_obs_features(&l->key[i]), counted = mf_obs_is_code(&l->key[i]) ? 0 : features;
        if (state)
            mf_normalize((size_t)counted, norm->scale + at, norm->offset + at, flat, state + n);
        flat += state ? mf_obs_size(&l->key[i]) : 0;
        n += counted;
        at += features;
    }
    return n;
}

int mf_layout_pictures(const struct mf_layout *l)
{
    int n = 0;
    for (int i = 0; i < l->n; i++)
        n += mf_obs_is_picture(&l->key[i]);
    return n;
}

bool mf_layout_finite(const struct mf_layout *l, const float *flat)
{
    for (int i = 0; i < l->n; flat += mf_obs_size(&l->key[i++]))
        for (int j = 0; !packed(&l->key[i]) && j < mf_obs_size(&l->key[i]); j++)
            if (!isfinite(flat[j]))
                return false;
    return true;
}

int mf_crop_center(int size, int crop)
{
    const int half = (size - crop) / 2;
    return half + ((size - crop) & half & 1);
}

void mf_layout_points(struct mf_layout *l, int n)
{
    for (int i = 0; i < l->n; i++)
        if (mf_obs_is_cloud(&l->key[i])) {
            l->dim += (n - l->key[i].dim[0]) * l->key[i].dim[1];
            l->key[i].dim[0] = n;
        }
}
