/* pane.h - one run on a terminal: a line for each iteration, or a column of the screen (curses). */
#ifndef MF_PLOT_PANE_H
#define MF_PLOT_PANE_H

#include <stdio.h>

#include "run/history.h"

struct mf_pane {
    struct mf_history h;
    const char *state; /* "running": beside its name */
    bool limited;      /* these are known: */
    int64_t total;     /* control steps that it is to take */
    double kl;         /* the limit of KL */
};

enum { MF_PANE_NAME = 1024 };

/* The end of its name, of at most `width` bytes (below 0: none), fit for a terminal; in `to`. */
const char *mf_pane_name(const struct mf_pane *p, int width, char to[MF_PANE_NAME]);

void mf_pane_line(const struct mf_pane *p, size_t i, FILE *to); /* iteration i */
void mf_pane_last(const struct mf_pane *p, FILE *to);           /* how far it came; nothing where it has no iteration */

/* From top to bottom: what it is, success, KL with its limit, numbers, shares of the time. On curses' stdscr, whose
 * last row it leaves. braille: the terminal is one of UTF-8. */
void mf_pane_draw(const struct mf_pane *p, bool braille, int col, int cols, int rows);
void mf_pane_colours(void); /* that it takes, where the terminal has any: once, after start_color */

#endif
