/* window.h - what a policy sees: the last To observations of each environment, oldest first.
 *
 *   N environments  To observation steps  O one observation
 *
 * They are those of the last To control steps, as demonstrations are cut, however many actions a decision executes; an
 * episode begins with its first observation To times.
 */
#ifndef MF_ENV_WINDOW_H
#define MF_ENV_WINDOW_H

#include "env/vec.h"

/* One environment's window w (To, O): all that decision d showed of environment n within its episode, up to `last` (O),
 * its obs or its final_obs. */
void mf_window_follow(float *w, size_t To, size_t O, const struct mf_decision *d, int n, const float *last);

/* All windows (N, To, O) come to obs (N, O), what the policy sees next: after decision d, or, NULL, at the first of an
 * episode everywhere. */
void mf_windows_see(float *w, int N, size_t To, size_t O, const struct mf_decision *d, const float *obs);

#endif
