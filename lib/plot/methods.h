/* methods.h - methods to compare: a folder METHOD/SEED for each run, with its metrics and its evaluation
 * (logs/eval.json of mf-eval). A run that is missing, cut or not evaluated keeps its place.
 */
#ifndef MF_PLOT_METHODS_H
#define MF_PLOT_METHODS_H

#include "base/moments.h"
#include "conf/conf.h"
#include "plot/evals.h"
#include "plot/run_logs.h"

struct mf_method_run {
    int64_t seed;
    char *path;                   /* METHOD/SEED */
    const struct mf_run_log *log; /* NULL: no metrics there */
    struct mf_evals_row eval;     /* its results; seeds = 0: not evaluated */
};

struct mf_method {
    const char *name; /* the last part of its folder's path, borrowed */
    bool clones;      /* its steps are minibatches of mf-bc, not control steps */
    struct mf_method_run *run;
    struct mf_cohort cohort; /* the runs with metrics that ended */
};

struct mf_methods {
    int n, n_seeds;
    struct mf_method *of; /* (n), each with (n_seeds) runs */
    struct mf_run_logs logs;
    struct mf_evals evals;
};

/* MF_EUSAGE: an evaluation holds results of several policies or numbers of denoising steps, or two are of different
 * tasks. */
int mf_methods_open(struct mf_methods *m, const char *const *folder, int n, const struct mf_ints *seeds,
                    struct mf_err *err);
void mf_methods_close(struct mf_methods *m); /* safe on a zeroed one */

/* Has the run ended, as far as its metrics say, and an evaluation? Only such runs count. */
bool mf_method_run_counts(const struct mf_method_run *r);

/* What the methods are compared by: success, or the return where no trial of any method succeeded, as of a task that
 * knows no success. */
enum mf_measure mf_methods_measure(const struct mf_methods *m);

struct mf_method_score { /* over the runs that count */
    int runs;
    int64_t trials, succeeded;
    struct mf_moments ret;    /* returns of the trials */
    double median, low, high; /* of the runs' success rates or mean returns */
};
struct mf_method_score mf_method_score(const struct mf_method *m, int n_seeds, enum mf_measure of);
/* On the trials that runs of one seed have in common; n = 0: none. */
struct mf_paired mf_method_pair(const struct mf_method *first, const struct mf_method *m, int n_seeds,
                                enum mf_measure of);

#endif
