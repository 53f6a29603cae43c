/* canvas.h - curves in the cells of a terminal: two by four dots in a cell of braille, or one in a plain one. */
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

/* Empty; at least a cell. */
void mf_canvas_init(struct mf_canvas *c, int rows, int cols, bool braille, double low, double high);
void mf_canvas_release(struct mf_canvas *c);

/* v (n) over x (n), which does not fall, from the left edge to the right one. NaN is passed over; what is beyond low
 * and high is at the edge. */
void mf_canvas_curve(struct mf_canvas *c, size_t n, const double *x, const double *v);
void mf_canvas_level(struct mf_canvas *c, double v); /* a dotted line; beyond low and high, none */

wchar_t mf_canvas_at(const struct mf_canvas *c, int row, int col); /* what a cell shows, row 0 on top; 0: nothing */

#endif
