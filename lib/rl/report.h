/* report.h - the results of an iteration as a metrics frame, under the tags that are common in RL. */
#ifndef MF_RL_REPORT_H
#define MF_RL_REPORT_H

#include <stdio.h>

#include "rl/health.h"
#include "rl/ppo.h"
#include "rl/rounds.h"

struct mf_report {
    int64_t iter, step;                /* iteration; control steps so far */
    double time;                       /* s of training of the run so far */
    double update_time, round_time;    /* s; a round lasts from one update's end to the next's */
    double cpu_time;                   /* s of the learner's threads in that round */
    int64_t steps, dropped;            /* control steps of this round; rounds dropped so far */
    double noise;                      /* sigma, or the level, of the round's samples */
    const struct mf_round_part *parts; /* of the sources: for their episodes */
    int n_parts;
    const struct mf_ppo_stats *stats;
    const struct mf_health *health;
};

/* Metrics without a value are left out, for example success, return and length where no episode can be counted yet
 * (episodes.h). The caller frees it. */
struct mf_frame *mf_report_frame(const struct mf_report *r);
/* A line of a table; every 20 iterations the heading before it. */
void mf_report_row(const struct mf_frame *metrics, FILE *to);
/* A short text for a status line. */
void mf_report_words(const struct mf_frame *metrics, char *words, size_t size);
/* Prints a row on `table`. NULL: updates the status line, and logs at intervals (log.h: *logged_at) or, with `all`,
 * always. */
void mf_report_show(const struct mf_frame *metrics, FILE *table, bool all, double *logged_at);

#endif
