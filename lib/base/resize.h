/* resize.h - color pictures of other sizes: resized with their aspect kept, and black around them.
 *
 * Bytes are resized as Pillow's BILINEAR does it, bit for bit: a triangle whose support grows with the ratio, so that a
 * smaller picture is antialiased; weights of 22 bits; first the rows, then the columns, rounded after each. (Pillow 13
 * takes the columns first where that is cheaper; versions before do not.) Numbers are resized as PyTorch's
 * interpolate(mode="bilinear") does it: between the centers of the two pixels nearby. openpi uses the first for a
 * policy's input and the second in its networks.
 */
#ifndef MF_BASE_RESIZE_H
#define MF_BASE_RESIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/layout.h"
#include "base/mem.h"

struct mf_taps {        /* what each pixel of one direction is made of */
    int to, most;       /* pixels; the weights of each, at most */
    int *first, *count; /* (to) of the pixels that it is made of */
    int32_t *weight;    /* (to, most) */
};

struct mf_resize {
    int h, w, H, W;            /* rows and columns: of the picture, of the result */
    int rows, cols, top, left; /* of the picture within the result */
    bool turn;                 /* the picture is turned by 180 degrees first */
    struct mf_taps across, down;
    uint8_t *turned, *between; /* (h, w, 3), (h, cols, 3) */
    struct mf_arena arena;
};

/* For pictures (h, w, 3), rows from the top, to (H, W, 3). MF_EUSAGE where a side would have no pixel. */
int mf_resize_init(struct mf_resize *r, int h, int w, int H, int W, bool turn, struct mf_err *err);
void mf_resize_release(struct mf_resize *r); /* safe on a zeroed one */

/* from (h, w, 3), to (H, W, 3), not the same; one thread at a time. Equal sizes stay as they are. */
void mf_resize_bytes(struct mf_resize *r, const uint8_t *from, uint8_t *to);
/* The same for numbers in [-1, 1], where -1 is black. */
void mf_resize_floats(const struct mf_resize *r, const float *from, float *to);

/* The pictures of an observation: those of `from` as the policy reads them, in its own layout of the same keys. */
struct mf_resizer {
    struct mf_layout from;
    bool changes;                      /* is any picture resized or turned? */
    struct mf_resize key[MF_OBS_KEYS]; /* h 0: as it is */
};

/* Color pictures of bytes change; turn: all of them. MF_EUSAGE where another observation has two shapes, or a picture a
 * side without a pixel. */
int mf_resizer_init(struct mf_resizer *r, const struct mf_layout *from, const struct mf_layout *to, bool turn,
                    struct mf_err *err);
void mf_resizer_release(struct mf_resizer *r); /* safe on a zeroed one */
/* One observation of key k: its elements, as mf_obs_pack has them, to the flat vector. One thread at a time. */
void mf_resizer_pack(struct mf_resizer *r, int k, const struct mf_obs *as, const void *elements, float *flat);
bool mf_obs_is_resizable(const struct mf_obs *o);   /* a color picture of bytes */
void mf_layout_side(struct mf_layout *l, int side); /* the side of those of l; 0: unchanged */

#endif
