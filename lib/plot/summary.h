/* summary.h - what came of a group of runs, in numbers that can be compared. */
#ifndef MF_PLOT_SUMMARY_H
#define MF_PLOT_SUMMARY_H

#include "plot/run_logs.h"

enum { MF_LATELY = 10 }; /* the most iterations that a success is the mean of */

struct mf_spread { /* of a number over the runs that have it; NaN where none has */
    int n;
    double mean, low, high, variance; /* the sample's, over n - 1; NaN of one run */
};

struct mf_summary {
    int reached;                      /* runs that came to the success that was asked for */
    struct mf_spread steps, time;     /* control steps, seconds until they did */
    struct mf_spread final;           /* success of the last iterations: over as many as the next says */
    struct mf_spread last;            /* the last tenth of those in which an episode ended: 1 to MF_LATELY of them */
    double episodes;                  /* in these, of all runs; NaN: not all runs report theirs */
    struct mf_spread iterations, all; /* how many; control steps */
    struct mf_spread per_iteration;   /* seconds of one */
};

/* Where a run reports rollout/episodes, each iteration counts by them. success: a share of the episodes, in the mean
 * over MF_LATELY iterations in a row, or all of a shorter run. */
struct mf_summary mf_summary_of(const struct mf_cohort *g, double success);

#endif
