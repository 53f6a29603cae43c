/* waits.h - how much of its time a stage waits, round by round, left in the run's folder for the learner to report.
 *
 * Not in the stream: the same seed gives the same bytes there, and no two waits are the same. A stage that passes
 * rounds on and belongs to a run in progress keeps logs/mf-NAME.idle, two shares of the time since the round
 * before: waiting for input (a collector: for the policy), and for whoever reads its output.
 */
#ifndef MF_STAGE_WAITS_H
#define MF_STAGE_WAITS_H

#include "stream/frame.h"

struct mf_waits { /* zeroed: of no run */
    char path[1024];
    int fd;                /* 0: no round came yet */
    double since, in, out; /* when the round before was passed on, and what had been waited until then; s */
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
