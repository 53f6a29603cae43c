#include "base/augment.h"

#include <math.h>
#include <string.h>

#include "base/resize.h"

size_t mf_augment_room(const struct mf_layout *l)
{
    size_t most = 0;
    for (int i = 0; i < l->n; i++)
        if (mf_obs_is_resizable(&l->key[i]) && (size_t)mf_obs_count(&l->key[i]) > most)
            most = (size_t)mf_obs_count(&l->key[i]);
    return 2 * most;
}

struct mf_augment mf_augment_draw(const struct mf_obs *o, struct mf_rng *rng)
{
    const int H = o->dim[0], W = o->dim[1];
    struct mf_augment a = {.height = 0};
    if (!strstr(o->name, "wrist") && !strstr(o->name, "hand")) {
        a.height = H < 2 ? H : H * 95 / 100;
        a.width = W < 2 ? W : W * 95 / 100;
        a.top = (int)mf_rng_below(rng, (uint32_t)(H - a.height) + 1);
        a.left = (int)mf_rng_below(rng, (uint32_t)(W - a.width) + 1);
        a.turn = mf_rng_range(rng, -5, 5);
    }
    a.brightness = mf_rng_range(rng, .7f, 1.3f);
    a.contrast = mf_rng_range(rng, .6f, 1.4f);
    a.saturation = mf_rng_range(rng, .5f, 1.5f);
    return a;
}

/* Where pixel i of `to` lies between two of `from`, by their centers: the first, the second, and the latter's share. */
static float between(int i, int from, int to, int *first, int *second)
{
    const float at = fmaxf(((float)i + .5f) * ((float)from / (float)to) - .5f, 0);
    *first = (int)at;
    *second = *first + (*first < from - 1);
    return at - (float)*first;
}

/* The window, resized to (H, W, C). */
static void zoom(const struct mf_obs *o, const struct mf_augment *a, const float *from, float *to)
{
    const int H = o->dim[0], W = o->dim[1], C = 3;
    int y0, y1, x0, x1;
    for (int i = 0; i < H; i++) {
        const float dy = between(i, a->height, H, &y0, &y1);
        const float *above = from + (size_t)(a->top + y0) * (size_t)(W * C),
                    *below = from + (size_t)(a->top + y1) * (size_t)(W * C);
        for (int j = 0; j < W; j++) {
            const float dx = between(j, a->width, W, &x0, &x1);
            const int p = (a->left + x0) * C, q = (a->left + x1) * C;
            for (int c = 0; c < C; c++)
                *to++ = (1 - dy) * ((1 - dx) * above[p + c] + dx * above[q + c]) +
                        dy * ((1 - dx) * below[p + c] + dx * below[q + c]);
        }
    }
}

/* Adds a pixel with its share, unless it lies outside. */
static void add(const struct mf_obs *o, const float *from, int y, int x, float share, float *to)
{
    if (y < 0 || x < 0 || y >= o->dim[0] || x >= o->dim[1])
        return;
    const float *pixel = from + ((size_t)y * (size_t)o->dim[1] + (size_t)x) * 3;
    for (int c = 0; c < 3; c++)
        to[c] += share * pixel[c];
}

/* As published: the centers of the outermost pixels are the ends of [-1, 1] in the result, and the outer edges of those
 * pixels are in the picture that is read. */
static float place(int i, int size)
{
    return size > 1 ? 2 * (float)i / (float)(size - 1) - 1 : -1;
}

static void turn(const struct mf_obs *o, float degrees, const float *from, float *to)
{
    const int H = o->dim[0], W = o->dim[1], C = 3;
    const float angle = degrees * (float)M_PI / 180, cosine = cosf(angle), sine = sinf(angle);
    for (int i = 0; i < H; i++)
        for (int j = 0; j < W; j++, to += C) {
            const float u = place(j, W), v = place(i, H);
            const float x = ((u * cosine - v * sine + 1) * (float)W - 1) / 2,
                        y = ((u * sine + v * cosine + 1) * (float)H - 1) / 2, left = floorf(x), top = floorf(y),
                        dx = x - left, dy = y - top;
            memset(to, 0, (size_t)C * sizeof *to);
            add(o, from, (int)top, (int)left, (1 - dy) * (1 - dx), to);
            add(o, from, (int)top, (int)left + 1, (1 - dy) * dx, to);
            add(o, from, (int)top + 1, (int)left, dy * (1 - dx), to);
            add(o, from, (int)top + 1, (int)left + 1, dy * dx, to);
        }
}

static void recolor(const struct mf_obs *o, const struct mf_augment *a, const float *from, uint8_t *to)
{
    const size_t n = (size_t)mf_obs_count(o), C = 3;
    double sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += (double)(from[k] * a->brightness);
    const float mean = (float)(sum / (double)n);
    for (size_t k = 0; k < n; k += C) {
        float color[3], grey = 0;
        for (size_t c = 0; c < C; c++)
            grey += color[c] = (from[k + c] * a->brightness - mean) * a->contrast + mean;
        grey /= (float)C;
        for (size_t c = 0; c < C; c++)
            to[k + c] = (uint8_t)(255 * fminf(fmaxf(grey + (color[c] - grey) * a->saturation, 0), 1) + .5f);
    }
}

void mf_augment_picture(const struct mf_obs *o, const struct mf_augment *a, uint8_t *bytes, float *scratch)
{
    const size_t n = (size_t)mf_obs_count(o);
    float *one = scratch, *two = scratch + n;
    for (size_t k = 0; k < n; k++)
        one[k] = (float)bytes[k] / 255;
    if (a->height) {
        zoom(o, a, one, two);
        if (fabsf(a->turn) > .1f)
            turn(o, a->turn, two, one);
        else
            one = two;
    }
    recolor(o, a, one, bytes);
}

void mf_augment(const struct mf_layout *l, struct mf_rng rng, float *flat, float *scratch)
{
    for (int i = 0; i < l->n; flat += mf_obs_size(&l->key[i++])) {
        if (!mf_obs_is_resizable(&l->key[i]))
            continue;
        const struct mf_augment a = mf_augment_draw(&l->key[i], &rng);
        mf_augment_picture(&l->key[i], &a, (uint8_t *)flat, scratch);
    }
}
