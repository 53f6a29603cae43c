/* crew.h - idle workers take parts of the jobs that other workers are doing.
 *
 * A worker begins as a leader, with work of its own, or as a helper. A leader that has finished becomes a helper. One
 * leader at a time shares a job; where no helper is free, or another leader is sharing, the leader does its job whole,
 * at the cost of two atomic reads. Helpers wait by polling, and yield their core after a while: crews are for short
 * work.
 */
#ifndef MF_CPU_CREW_H
#define MF_CPU_CREW_H

#include <stdatomic.h>
#include <stdbool.h>

/* Does part `part` of `parts`, on this worker. */
typedef void mf_part(void *arg, int part, int parts, int worker);

struct mf_crew {
    int workers;
    atomic_int leaders;
    atomic_flag led;
    mf_part *fn;
    void *arg;
    atomic_uint turn; /* parts << 16 | next part */
    atomic_int left;  /* parts that have not finished */
};

/* The first `leaders` workers lead, the others will call mf_crew_help. */
void mf_crew_start(struct mf_crew *c, int workers, int leaders);
bool mf_crew_helps(struct mf_crew *c); /* is a helper free? */
/* A leader's job, in `over` parts for itself and for each helper; returns when all parts have finished. */
void mf_crew_share(struct mf_crew *c, int worker, int over, mf_part *fn, void *arg);
void mf_crew_end(struct mf_crew *c);              /* a leader has finished */
void mf_crew_help(struct mf_crew *c, int worker); /* helps until all leaders have finished */

#endif
