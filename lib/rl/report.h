/* report.h - what an iteration did, as a metrics frame in the tags that people look for. */
#ifndef MF_RL_REPORT_H
#define MF_RL_REPORT_H

#include <stdio.h>

#include "rl/health.h"
#include "rl/ppo.h"
#include "rl/rounds.h"

struct mf_report {
    int64_t iter, step;                /* iteration; control steps so far */
    double time;                       /* s of training of the run so far */
    double update_time, round_time;    /* s; a round is from the end of one update to the end of the next */
    double cpu_time;                   /* s of the learner's threads in that round */
    int64_t steps, dropped;            /* control steps of this round; rounds dropped so far */
    double noise;                      /* sigma or level that the round was sampled with */
    const struct mf_round_part *parts; /* of the sources: their episodes */
    int n_parts;
    const struct mf_ppo_stats *stats;
    const struct mf_health *health;
};

/* What has no value is left out: success, return and length where no episode can be counted yet (episodes.h). The
 * caller frees it. */
struct mf_frame *mf_report_frame(const struct mf_report *r);
/* One line of a table, with its head every 20 iterations. */
void mf_report_row(const struct mf_frame *metrics, FILE *to);
/* A few words for a line that is drawn over and over. */
void mf_report_words(const struct mf_frame *metrics, char *words, size_t size);
/* A row on `table`; NULL: words on the live line and in the log, there at intervals (log.h: *logged_at) unless `all`.
 */
void mf_report_show(const struct mf_frame *metrics, FILE *table, bool all, double *logged_at);

#endif
