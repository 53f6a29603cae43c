/* shift.h - moves pictures by whole pixels: random shift (Yarats et al., DrQ, 2021) and random crop.
 *
 * A picture's new pixel (i, j) is its old one at (i + dy, j + dx), clamped to the edges. Where a policy sees the window
 * in the center (policy.crop), a move shows it another window: so a random crop is a move, too.
 */
#ifndef MF_BASE_SHIFT_H
#define MF_BASE_SHIFT_H

#include "base/layout.h"
#include "base/rng.h"

struct mf_shift {
    int reach; /* pixels, to every side */
    int crop;  /* side of the window that will be seen, which is drawn at random; 0: the whole picture */
};

size_t mf_shift_room(const struct mf_layout *l); /* floats of the scratch */
/* Moves each picture of one flat observation by a draw of its own. */
void mf_shift(const struct mf_shift *s, const struct mf_layout *l, struct mf_rng rng, float *flat, float *scratch);
/* One picture: from and to do not overlap. */
void mf_shift_picture(const struct mf_obs *o, int dy, int dx, const float *from, float *to);

#endif
