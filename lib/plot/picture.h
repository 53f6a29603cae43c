/* picture.h - curves of groups of runs become pictures, by gnuplot in a process of its own. */
#ifndef MF_PLOT_PICTURE_H
#define MF_PLOT_PICTURE_H

#include <stdio.h>

#include "plot/curve.h"

enum mf_form { MF_FORM_TEXT, MF_FORM_PNG, MF_FORM_SVG };

struct mf_picture {
    enum mf_form form;
    int width, height; /* pixels, or characters */
    enum mf_axis axis;
    int n_series; /* a panel for each */
    const char *const *series;
    int n_groups; /* a mean for each, in a band from the least to the most where several runs have it */
    const struct mf_cohort *group;
    int id; /* keeps the ids of several SVGs in one page apart */
};

/* Append what gnuplot is to do. How many curves it has. */
int mf_picture_script(const struct mf_picture *p, FILE *script);
/* Run a script of one or more pictures; *out, for free() and ended by a 0, is what gnuplot drew, n > 0 bytes. MF_EIO,
 * and NULL, where it is missing, fails, is killed, or could not write all of it. */
int mf_picture_make(const char *script, size_t length, char **out, size_t *n, struct mf_err *err);

#endif
