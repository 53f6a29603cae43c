/* in_force.h - the policy.* keys that a run used, where its checkpoint or environment set them and no word did. */
#ifndef MF_PLOT_IN_FORCE_H
#define MF_PLOT_IN_FORCE_H

#include "stream/frame.h"

/* Replaces the texts of those keys, malloc'ed and in the order of mf_keys, by the values in the head of the run's
 * stream. Keys that the head lacks stay. */
void mf_in_force(const struct mf_frame *head, char **text);

#endif
