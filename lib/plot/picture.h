/* picture.h - pictures of curves, drawn by gnuplot in a process of its own. */
#ifndef MF_PLOT_PICTURE_H
#define MF_PLOT_PICTURE_H

#include <stdio.h>

#include "plot/curve.h"

enum mf_form { MF_FORM_TEXT, MF_FORM_PNG, MF_FORM_SVG };

struct mf_picture {
    enum mf_form form;
    int width, height; /* pixels, or characters */
    enum mf_axis axis;
    int n_series; /* one panel each */
    const char *const *series;
    int n_groups; /* one mean curve each, in a band from minimum to maximum of several runs */
    const struct mf_cohort *group;
    int id; /* distinguishes the ids of several SVGs in one page */
};

/* Appends gnuplot commands to the script. Returns the number of curves. */
int mf_picture_script(const struct mf_picture *p, FILE *script);
/* Runs a script of one or more pictures. *out is gnuplot's output, n > 0 bytes and a final 0; free() it. MF_EIO, and
 * NULL: gnuplot is missing, failed, was killed, or could not write everything. */
int mf_picture_make(const char *script, size_t length, char **out, size_t *n, struct mf_err *err);

#endif
