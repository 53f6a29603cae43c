/* ref_slide.c - windows that slide over the rows of a block, as rows of their own, and back. */
#include <string.h>

#include "dev/ref.h"

struct slide {
    int blocks, few, many; /* rows of a block: windows, and what they slide over */
    int C;
};

static struct slide slide_of(const struct mf_call *c, int n, const struct mf_tensor *wide, const struct mf_tensor *x)
{
    return (struct slide){mf_tile_rows(x, n) / x->rows * c->blocks, wide->rows / c->blocks, x->rows / c->blocks,
                          x->cols};
}

/* The taps of window t that meet a row: [first, end). */
static int taps(const struct mf_call *c, const struct slide *s, int t, int *first)
{
    int at = t * c->stride - c->pad, end = s->many - at;
    *first = at < 0 ? -at : 0;
    return end < c->window ? end : c->window;
}

/* wide[t, c*window + j] = x[t*stride + j - pad, c], or += */
static void gather(const struct mf_call *c, const struct slide *s, const float *x, float *wide, bool add)
{
    for (int i = 0; i < s->blocks * s->few; i++) {
        int first, t = i % s->few, end = taps(c, s, t, &first);
        const float *from = x + (ptrdiff_t)(i / s->few * s->many + t * c->stride - c->pad) * s->C;
        float *to = wide + (size_t)i * (size_t)s->C * (size_t)c->window;
        if (!add)
            memset(to, 0, sizeof(float) * (size_t)s->C * (size_t)c->window);
        for (int j = first; j < end; j++)
            for (int k = 0; k < s->C; k++)
                to[k * c->window + j] += from[j * s->C + k];
    }
}

/* x[t*stride + j - pad, c] += wide[t, c*window + j] */
static void scatter(const struct mf_call *c, const struct slide *s, const float *wide, float *x)
{
    for (int i = 0; i < s->blocks * s->few; i++) {
        int first, t = i % s->few, end = taps(c, s, t, &first);
        float *to = x + (ptrdiff_t)(i / s->few * s->many + t * c->stride - c->pad) * s->C;
        const float *from = wide + (size_t)i * (size_t)s->C * (size_t)c->window;
        for (int j = first; j < end; j++)
            for (int k = 0; k < s->C; k++)
                to[j * s->C + k] += from[k * c->window + j];
    }
}

void mf_ref_unfold(const struct mf_call *c, int n)
{
    struct slide s = slide_of(c, n, &c->y, &c->x[0]);
    gather(c, &s, c->x[0].data, c->y.data, false);
}

void mf_ref_unfold_back(const struct mf_call *c, int n, float *lane)
{
    struct slide s = slide_of(c, n, &c->y, &c->x[0]);
    (void)lane;
    mf_ref_zero(c, n);
    scatter(c, &s, c->y.grad, c->x[0].grad);
}

void mf_ref_fold(const struct mf_call *c, int n)
{
    struct slide s = slide_of(c, n, &c->x[0], &c->y);
    memset(c->y.data, 0, sizeof(float) * (size_t)mf_tile_rows(&c->y, n) * (size_t)c->y.cols);
    scatter(c, &s, c->x[0].data, c->y.data);
}

void mf_ref_fold_back(const struct mf_call *c, int n, float *lane)
{
    struct slide s = slide_of(c, n, &c->x[0], &c->y);
    (void)lane;
    gather(c, &s, c->y.grad, c->x[0].grad, c->x[0].add);
}
