/* window.h - the policy's input: the last To observations of each environment, oldest first.
 *
 *   N environments  To observation steps  O one observation
 *
 * They are those of the last To control steps, as in the windows of demonstrations, for any number of actions per
 * decision. An episode starts with its first observation To times.
 */
#ifndef MF_ENV_WINDOW_H
#define MF_ENV_WINDOW_H

#include "env/vec.h"

/* Advances one environment's window w (To, O) by the observations of environment n in decision d, up to `last` (O), its
 * obs or its final_obs. */
void mf_window_follow(float *w, size_t To, size_t O, const struct mf_decision *d, int n, const float *last);

/* Advances all windows (N, To, O) to obs (N, O), the next observation: after decision d, or, if d is NULL, at the start
 * of an episode everywhere. */
void mf_windows_push(float *w, int N, size_t To, size_t O, const struct mf_decision *d, const float *obs);

#endif
