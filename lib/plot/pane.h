/* pane.h - one run on a terminal: a line for each iteration, or a column of the screen (curses). */
#ifndef MF_PLOT_PANE_H
#define MF_PLOT_PANE_H

#include <stdio.h>

#include "run/history.h"

struct mf_pane {
    struct mf_history h;
    const char *state; /* "running": beside its name */
    bool limited;      /* the following are known: */
    int64_t total;     /* its training.total_timesteps */
    double kl;         /* the limit of KL */
};

enum { MF_PANE_NAME = 1024 };

/* The end of its name, at most `width` bytes (negative: no limit), made safe for a terminal; in `to`. */
const char *mf_pane_name(const struct mf_pane *p, int width, char to[MF_PANE_NAME]);

void mf_pane_line(const struct mf_pane *p, size_t i, FILE *to); /* iteration i */
void mf_pane_last(const struct mf_pane *p, FILE *to);           /* its newest iteration; no output without one */

/* Draws, from top to bottom: name, success, KL with its limit, numbers, shares of time. On curses' stdscr, without its
 * last row. braille: the terminal supports UTF-8. */
void mf_pane_draw(const struct mf_pane *p, bool braille, int col, int cols, int rows);
void mf_pane_colours(void); /* sets up its colours, if the terminal has any; call once, after start_color */

#endif
