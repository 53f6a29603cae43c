/* crew.h - work that is shared while it is under way: whoever has nothing to do takes parts of what others do.
 *
 * Workers begin as leaders, who have work of their own, or as helpers. A leader that has ended becomes a helper. Each
 * job is shared by one leader at a time; where nobody is free, or another leads, it is done whole and costs two looks.
 * Helpers look for work in turns with whatever else wants their core: this is for work that ends soon.
 */
#ifndef MF_CPU_CREW_H
#define MF_CPU_CREW_H

#include <stdatomic.h>
#include <stdbool.h>

/* Does part of parts; worker: who does it. */
typedef void mf_part(void *arg, int part, int parts, int worker);

struct mf_crew {
    int workers;
    atomic_int leaders;
    atomic_flag led;
    mf_part *fn;
    void *arg;
    atomic_uint turn; /* parts << 16 | next part */
    atomic_int left;  /* parts that have not ended */
};

/* Workers from `leaders` on are expected as helpers. */
void mf_crew_start(struct mf_crew *c, int workers, int leaders);
bool mf_crew_helps(struct mf_crew *c); /* is anybody free? */
/* A leader's job, in `over` parts for each that is free; returns when all have ended. */
void mf_crew_share(struct mf_crew *c, int worker, int over, mf_part *fn, void *arg);
void mf_crew_end(struct mf_crew *c);              /* a leader has nothing left */
void mf_crew_help(struct mf_crew *c, int worker); /* until no leader is left */

#endif
