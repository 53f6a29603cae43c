/* augment.h - color pictures as openpi augments them to train pi0.5.
 *
 * A window of 95 % of both sides at a random place, resized to the whole; turned by up to 5 degrees, black where
 * nothing was (at most .1 degree: not turned). A wrist camera keeps its view: one whose name has "wrist" or "hand" in
 * it. Then the colors of all, as numbers from 0 to 1: times U(.7, 1.3) (brightness); the distance to the picture's mean
 * times U(.6, 1.4) (contrast); the distance to the mean of the pixel's channels times U(.5, 1.5) (saturation); clipped,
 * and rounded to bytes. openpi draws once for a minibatch and rounds nothing; here each picture has draws of its own.
 */
#ifndef MF_BASE_AUGMENT_H
#define MF_BASE_AUGMENT_H

#include <stdint.h>

#include "base/layout.h"
#include "base/rng.h"

struct mf_augment {                         /* what is drawn for a picture */
    int top, left, height, width;           /* the window; height 0: the whole, which is not turned either */
    float turn;                             /* degrees */
    float brightness, contrast, saturation; /* factors */
};

size_t mf_augment_room(const struct mf_layout *l); /* floats of the scratch */
/* Each color picture of one flat observation, by a draw of its own; other keys stay. */
void mf_augment(const struct mf_layout *l, struct mf_rng rng, float *flat, float *scratch);
struct mf_augment mf_augment_draw(const struct mf_obs *o, struct mf_rng *rng);
/* One picture of bytes (height, width, 3), in place. */
void mf_augment_picture(const struct mf_obs *o, const struct mf_augment *a, uint8_t *bytes, float *scratch);

#endif
