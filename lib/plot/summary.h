/* summary.h - what came of a group of runs, in numbers that can be compared. */
#ifndef MF_PLOT_SUMMARY_H
#define MF_PLOT_SUMMARY_H

#include "plot/trials.h"

enum { MF_LATELY = 10 }; /* iterations that success is the mean of; all of a shorter run */

struct mf_spread { /* of a number over the runs that have it; NaN where none has */
    int n;
    double mean, low, high, variance; /* the sample's, over n - 1; NaN of one run */
};

struct mf_summary {
    int reached;                      /* runs that came to the success that was asked for */
    struct mf_spread steps, time;     /* control steps, seconds until they did */
    struct mf_spread final;           /* success of the last MF_LATELY iterations */
    struct mf_spread iterations, all; /* how many; control steps */
    struct mf_spread per_iteration;   /* seconds of one */
};

/* success: a share of the episodes, in the mean over MF_LATELY iterations in a row. */
struct mf_summary mf_summary_of(const struct mf_cohort *g, double success);

#endif
