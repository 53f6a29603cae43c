/* canvas.h - curves in terminal cells: two by four dots in a braille cell, or one dot in a plain cell. */
#ifndef MF_PLOT_CANVAS_H
#define MF_PLOT_CANVAS_H

#include <stdbool.h>
#include <stddef.h>
#include <wchar.h>

struct mf_canvas {
    int rows, cols, dx, dy; /* cells; dots in a cell */
    double low, high;       /* the values at the bottom and at the top */
    unsigned char *cell;    /* (rows, cols) a bit for each dot */
};

/* An empty canvas of at least one cell. */
void mf_canvas_init(struct mf_canvas *c, int rows, int cols, bool braille, double low, double high);
void mf_canvas_release(struct mf_canvas *c);

/* Draws v (n) over non-decreasing x (n) across the full width. Skips NaN; clamps to low and high. */
void mf_canvas_curve(struct mf_canvas *c, size_t n, const double *x, const double *v);
void mf_canvas_level(struct mf_canvas *c, double v); /* a dotted line; none outside low and high */

wchar_t mf_canvas_at(const struct mf_canvas *c, int row, int col); /* the character of a cell, row 0 on top; 0: empty */

#endif
