/* comparison.h - a table that compares groups of runs: differing keys and results. */
#ifndef MF_PLOT_COMPARISON_H
#define MF_PLOT_COMPARISON_H

#include <stdio.h>

#include "plot/summary.h"

/* One row per group, whose name links to the section #gI, with the numbers of summary.h. */
void mf_comparison_put(const struct mf_run_logs *t, const struct mf_goal *target, FILE *to);

#endif
