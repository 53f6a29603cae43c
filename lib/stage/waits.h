/* waits.h - the share of time that a stage waits, per round, written to the run's folder for the learner to report.
 *
 * Waiting times differ between runs, so they are not in the stream, whose bytes depend on the seed alone. A stage of a
 * run in progress that forwards rounds keeps logs/mf-NAME.idle: two shares of the time since the previous round,
 * waiting for input (a collector: for the policy) and for the reader of its output.
 */
#ifndef MF_STAGE_WAITS_H
#define MF_STAGE_WAITS_H

#include "stream/frame.h"

struct mf_waits { /* zeroed: of no run */
    char path[1024];
    int fd;                /* 0: no round came yet */
    double since, in, out; /* time of the previous round, and the seconds waited until then */
};

/* in, out: seconds that were waited in all so far, at the start and when a round is passed on. Where the file cannot be
 * kept it is left out. open may be called again. */
void mf_waits_open(struct mf_waits *w, const char *dir, const char *program, double in, double out);
void mf_waits_close(struct mf_waits *w);
void mf_waits_round(struct mf_waits *w, double in, double out);
/* values.perf/idle_NAME_in and _out of each stage in the chain of the head of such a run's stream that has told them.
 */
void mf_waits_report(const struct mf_frame *head, struct mf_frame *metrics);

#endif
