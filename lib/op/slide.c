#include "op/slide.h"

#include <string.h>

struct slide {
    const struct mf_slide *how;
    int blocks, few, many; /* few: windows of a block; many: rows of a block */
    int C;
};

static struct slide slide_of(const struct mf_call *c, int n, const struct mf_tensor *wide, const struct mf_tensor *x)
{
    const struct mf_slide *how = c->how;
    return (struct slide){how, mf_tile_rows(x, n) / x->rows * how->blocks, wide->rows / how->blocks,
                          x->rows / how->blocks, x->cols};
}

/* The taps of window t that are within the block: [*first, returned end). */
static int taps(const struct slide *s, int t, int *first)
{
    int at = t * s->how->stride - s->how->pad, end = s->many - at;
    *first = at < 0 ? -at : 0;
    return end < s->how->kernel ? end : s->how->kernel;
}

/* Floats from the first row of all blocks to the first tap of window i, which may be before the window's own block. */
static ptrdiff_t window_at(const struct slide *s, int i)
{
    return (ptrdiff_t)(i / s->few * s->many + i % s->few * s->how->stride - s->how->pad) * s->C;
}

void mf_slide_gather(const struct mf_call *c, int n, const struct mf_tensor *wide, const struct mf_tensor *x,
                     const float *from, float *to, bool add)
{
    struct slide s = slide_of(c, n, wide, x);
    int kernel = s.how->kernel;
    for (int i = 0; i < s.blocks * s.few; i++, to += s.C * kernel) {
        int first, end = taps(&s, i % s.few, &first);
        const float *at = from + window_at(&s, i);
        if (!add)
            memset(to, 0, sizeof(float) * (size_t)s.C * (size_t)kernel);
        for (int j = first; j < end; j++)
            for (int k = 0; k < s.C; k++)
                to[k * kernel + j] += at[j * s.C + k];
    }
}

void mf_slide_scatter(const struct mf_call *c, int n, const struct mf_tensor *wide, const struct mf_tensor *x,
                      const float *from, float *to)
{
    struct slide s = slide_of(c, n, wide, x);
    int kernel = s.how->kernel;
    for (int i = 0; i < s.blocks * s.few; i++, from += s.C * kernel) {
        int first, end = taps(&s, i % s.few, &first);
        float *at = to + window_at(&s, i);
        for (int j = first; j < end; j++)
            for (int k = 0; k < s.C; k++)
                at[j * s.C + k] += from[k * kernel + j];
    }
}
