/* run_logs.h - runs that are compared: their metrics, what they were told, and which of them differ only in the seed.
 */
#ifndef MF_PLOT_RUN_LOGS_H
#define MF_PLOT_RUN_LOGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "conf/conf.h"
#include "run/history.h"

struct mf_run_log {
    char *path;   /* as it was given, or found */
    int word;     /* the one of the words that led to it */
    char *folder; /* of the run; "": it is a stream alone, and the folder that its head names is not looked into */
    struct mf_history h;
    char **text;  /* of every key in mf_keys, what the stages were told; a NULL is null. NULL: nothing is known */
    int64_t seed; /* run.seed */
};

struct mf_cohort {   /* runs of one configuration in one folder, each with another seed, as a sweep lays them */
    char label[256]; /* what their folders have in common and others' have not */
    int n;
    const struct mf_run_log **log; /* (n) */
};

struct mf_run_logs {
    int n, n_groups;
    struct mf_run_log *log;  /* (n) */
    struct mf_cohort *group; /* (n_groups) in the order in which they came */
    bool *differs;           /* of every key in mf_keys: not all groups have the same */
    struct mf_conf *defaults;
};

/* The runs that the words name, each read as far as it came: a run's folder, a saved stream of metrics, or a folder
 * with runs anywhere up to four levels below it (links are not followed). MF_EUSAGE where a folder has none. */
int mf_run_logs_open(struct mf_run_logs *t, const char *const *word, int n, struct mf_err *err);
void mf_run_logs_close(struct mf_run_logs *t); /* safe on a zeroed one */

/* Has a run of the n groups this metric? */
bool mf_cohorts_have(const struct mf_cohort *g, int n, const char *series);

/* Is the key's value known, and not the default? */
bool mf_run_logs_set(const struct mf_run_logs *all, const struct mf_run_log *t, int key);

#endif
