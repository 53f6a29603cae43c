/* frame_json.h - a frame as one line of JSON, for people and jq. What JSON lacks: bytes are {"bytes": n}, NaN is null.
 *
 * Written number by number, not by jansson: as its values a rollout of 64 MiB would take 640 MiB, and it has no form
 * for the fewest digits that bring a float32 back.
 */
#ifndef MF_STREAM_FRAME_JSON_H
#define MF_STREAM_FRAME_JSON_H

#include <stdio.h>

#include "stream/frame.h"

enum mf_arrays_as {
    MF_ARRAYS_SUMMARY, /* {"dtype", "shape", "min", "max", "mean", "nan"}; of what is not NaN */
    MF_ARRAYS_WHOLE,   /* {"dtype", "shape", "data": nested lists} */
    MF_ARRAYS_NONE,    /* {"dtype", "shape"} */
};

void mf_frame_json(const struct mf_frame *f, enum mf_arrays_as how, FILE *to); /* with its newline */

#endif
