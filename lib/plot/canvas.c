#include "plot/canvas.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

void mf_canvas_init(struct mf_canvas *c, int rows, int cols, bool braille, double low, double high)
{
    *c = (struct mf_canvas){
        .rows = rows, .cols = cols, .dx = braille ? 2 : 1, .dy = braille ? 4 : 1, .low = low, .high = high};
    c->cell = mf_xcalloc((size_t)(rows * cols), 1);
}

void mf_canvas_release(struct mf_canvas *c)
{
    free(c->cell);
}

static void dot(struct mf_canvas *c, int x, int y)
{
    static const unsigned char bit[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    if (x >= 0 && y >= 0 && x < c->cols * c->dx && y < c->rows * c->dy)
        c->cell[y / c->dy * c->cols + x / c->dx] |= bit[y % c->dy][x % c->dx];
}

static void line(struct mf_canvas *c, int x0, int y0, int x1, int y1)
{
    int n = abs(x1 - x0) > abs(y1 - y0) ? abs(x1 - x0) : abs(y1 - y0);
    for (int i = 0; i <= n; i++)
        dot(c, n ? x0 + (x1 - x0) * i / n : x0, n ? y0 + (y1 - y0) * i / n : y0);
}

/* The row of dots of a value. */
static int height(const struct mf_canvas *c, double v)
{
    const int d = c->rows * c->dy - 1;
    return d - (int)lround(d * (v - c->low) / (c->high - c->low));
}

void mf_canvas_curve(struct mf_canvas *c, size_t n, const double *x, const double *v)
{
    const int w = c->cols * c->dx - 1;
    const double span = n && x[n - 1] > x[0] ? x[n - 1] - x[0] : 1;
    int x0 = 0, y0 = 0;
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        if (isnan(v[i]))
            continue;
        const int x1 = (int)lround(w * (x[i] - x[0]) / span), y1 = height(c, fmin(fmax(v[i], c->low), c->high));
        line(c, any ? x0 : x1, any ? y0 : y1, x1, y1);
        x0 = x1, y0 = y1, any = true;
    }
}

void mf_canvas_level(struct mf_canvas *c, double v)
{
    for (int x = 0; x < c->cols * c->dx; x += 4)
        dot(c, x, height(c, v));
}

wchar_t mf_canvas_at(const struct mf_canvas *c, int row, int col)
{
    const unsigned char bits = c->cell[row * c->cols + col];
    return !bits ? 0 : c->dy > 1 ? (wchar_t)(0x2800 + bits) : L'*';
}
