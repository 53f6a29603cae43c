/* curve.h - one metric of a group of runs: its mean over the seeds, and the range in which they lie. */
#ifndef MF_PLOT_CURVE_H
#define MF_PLOT_CURVE_H

#include "plot/run_logs.h"

enum mf_axis { MF_AXIS_STEP, MF_AXIS_TIME, MF_AXIS_ITER }; /* thousands of control steps, seconds, iterations */

struct mf_curve {
    int runs; /* that have the metric */
    size_t n;
    double *x, *mean, *low, *high; /* (n); low and high are the least and the most of the runs */
};

/* At the first run's points, as far as all of the group's runs came that have the metric at all; between its points a
 * run is a straight line, and half an iteration beyond them what it is there. n = 0: no run has it. */
void mf_curve_of(struct mf_curve *c, const struct mf_cohort *g, const char *series, enum mf_axis axis);
void mf_curve_release(struct mf_curve *c);

#endif
