/* json.h - a frame as one line of JSON, for people and jq. What JSON lacks: bytes are {"bytes": n}, NaN is null. */
#ifndef MF_STREAM_JSON_H
#define MF_STREAM_JSON_H

#include <stdio.h>

#include "stream/frame.h"

enum mf_arrays_as {
    MF_ARRAYS_SUMMARY, /* {"dtype", "shape", "min", "max", "mean", "nan"}; of what is not NaN */
    MF_ARRAYS_WHOLE,   /* {"dtype", "shape", "data": nested lists} */
    MF_ARRAYS_NONE,    /* {"dtype", "shape"} */
};

void mf_frame_json(const struct mf_frame *f, enum mf_arrays_as how, FILE *to); /* with its newline */

void mf_json_text(const void *text, size_t n, FILE *to); /* quoted; what is no UTF-8 becomes U+FFFD */

/* Bytes of the UTF-8 character that the n > 0 bytes at s begin with; 0 when it is none (overlong, a surrogate, cut). */
size_t mf_utf8(const void *s, size_t n);

#endif
