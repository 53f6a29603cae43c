/* outcomes.h - rewards and ends of demonstrations, for what learns from them offline.
 *
 *   /data/demo_ID/rewards (n)      the reward of each step
 *   /data/demo_ID/dones (n)        1 where an episode ends
 *   /data/demo_ID/terminated (n)   1 where it ends in a terminal state; mf-record writes it. Where it is missing, every
 *                                  done is one; where it is not, the other dones are time limits
 *
 * The last step of a demonstration ends it in any case. An episode succeeded if its last reward is above 0, unless a
 * time limit ended it.
 */
#ifndef MF_DEMOS_OUTCOMES_H
#define MF_DEMOS_OUTCOMES_H

#include "demos/demos.h"

enum mf_demo_end { MF_DEMO_GOES_ON, MF_DEMO_TERMINATED, MF_DEMO_CUT }; /* cut: by a time limit, or by the file */

struct mf_outcomes { /* (total) each, of all steps in the order of the demonstrations */
    float *rewards;
    uint8_t *end;     /* enum mf_demo_end */
    uint8_t *success; /* of the episode */
};

/* MF_EFORMAT, with the demo's name, where one has no rewards. */
int mf_outcomes_read(struct mf_outcomes *o, struct mf_demos *d, struct mf_err *err);
void mf_outcomes_release(struct mf_outcomes *o); /* safe on a zeroed one */

#endif
