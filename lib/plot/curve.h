/* curve.h - one metric of a group of runs: mean, minimum and maximum over the seeds. */
#ifndef MF_PLOT_CURVE_H
#define MF_PLOT_CURVE_H

#include "plot/run_logs.h"

enum mf_axis { MF_AXIS_STEP, MF_AXIS_TIME, MF_AXIS_ITER }; /* thousands of control steps, seconds, iterations */

struct mf_curve {
    int runs; /* number of runs with the metric */
    size_t n;
    double *x, *mean, *low, *high; /* (n); low and high are the minimum and maximum of the runs */
};

/* Evaluated at the first run's points, up to the last step that all runs with the metric reached. A run is interpolated
 * linearly between its points, and constant for half an iteration beyond them. n = 0: no run has the metric. */
void mf_curve_of(struct mf_curve *c, const struct mf_cohort *g, const char *series, enum mf_axis axis);
void mf_curve_release(struct mf_curve *c);

#endif
