/* comparison.h - groups of runs against each other, as a table of a page: what they were told and what came of it. */
#ifndef MF_PLOT_COMPARISON_H
#define MF_PLOT_COMPARISON_H

#include <stdio.h>

#include "plot/run_logs.h"

/* A row for each group, whose name links to the section #gI, with the numbers of summary.h. success: the share that a
 * run is to reach. */
void mf_comparison_put(const struct mf_run_logs *t, double success, FILE *to);

#endif
