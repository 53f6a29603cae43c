/* run_logs.h - runs to compare: metrics, configuration, and groups that differ only in the seed. */
#ifndef MF_PLOT_RUN_LOGS_H
#define MF_PLOT_RUN_LOGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "conf/conf.h"
#include "run/history.h"

struct mf_run_log {
    char *path;   /* as given or found */
    int word;     /* index of the user's word that led to it */
    char *folder; /* of the run; "": a single stream file, without the folder that its head names */
    struct mf_history h;
    char **text;  /* value of every key in mf_keys (NULL: null); NULL: configuration unknown */
    int64_t seed; /* run.seed */
};

struct mf_cohort {   /* runs of one configuration in one folder with different seeds, as in a sweep */
    char label[256]; /* the part of the path that its folders share and others do not */
    int n;
    const struct mf_run_log **log; /* (n) */
};

struct mf_run_logs {
    int n, n_groups;
    struct mf_run_log *log;  /* (n) */
    struct mf_cohort *group; /* (n_groups) in order of appearance */
    bool *differs;           /* for every key in mf_keys: its value differs between groups */
    struct mf_conf *defaults;
};

/* Reads the runs that the words name, also incomplete ones: a run's folder, a saved stream of metrics, or a folder with
 * runs up to four levels below it (links are not followed). MF_EUSAGE: a folder without runs. */
int mf_run_logs_open(struct mf_run_logs *t, const char *const *word, int n, struct mf_err *err);
void mf_run_logs_close(struct mf_run_logs *t); /* safe on a zeroed one */

/* The unit of its steps: "minibatches" of a clone, "control steps", or "steps" where it has both. */
const char *mf_cohort_unit(const struct mf_cohort *g);

/* Does a run of the n groups have this metric? */
bool mf_cohorts_have(const struct mf_cohort *g, int n, const char *series);

/* Is the key's value known and different from the default? */
bool mf_run_logs_set(const struct mf_run_logs *all, const struct mf_run_log *t, int key);

#endif
