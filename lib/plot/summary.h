/* summary.h - the results of a group of runs, in numbers. */
#ifndef MF_PLOT_SUMMARY_H
#define MF_PLOT_SUMMARY_H

#include "plot/run_logs.h"

enum { MF_LATELY = 10 }; /* maximum number of iterations that the final success rate is averaged over */

struct mf_spread { /* of a number over the runs that have it; NaN: none has */
    int n;
    double mean, low, high, variance; /* sample variance, over n - 1; NaN for one run */
};

struct mf_summary {
    int reached;                      /* number of runs that reached the target success rate */
    struct mf_spread steps, time;     /* control steps and seconds until they reached it */
    struct mf_spread final;           /* success rate of the last iterations, whose number is `last` */
    struct mf_spread last;            /* a tenth of the iterations in which an episode ended: 1 to MF_LATELY */
    double episodes;                  /* number of episodes in them, over all runs; NaN: not reported by all */
    struct mf_spread iterations, all; /* iterations; control steps */
    struct mf_spread per_iteration;   /* seconds of one */
    struct mf_spread seconds;         /* of training in all */
};

/* The target: a success rate, on average over `window` consecutive iterations, or all of a shorter run. */
struct mf_goal {
    double success;
    int64_t window;
};
extern const struct mf_bind mf_goal_binds[];

/* Iterations are weighted by rollout/episodes, if reported. */
struct mf_summary mf_summary_of(const struct mf_cohort *g, const struct mf_goal *t);

#endif
