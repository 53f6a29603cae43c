/* missing.h - the sources that were lost or rejected and did not return, and the rounds without their parts. */
#ifndef MF_LEARN_MISSING_H
#define MF_LEARN_MISSING_H

#include <stdint.h>

#include "base/err.h"

struct mf_missing { /* zeroed: none */
    int n, rounds;  /* sources; rounds so far */
    struct mf_missed {
        char src[64];
        int64_t since; /* the first iteration without its part */
        int rounds;    /* and how many of them */
    } * source;
};

void mf_missing_left(struct mf_missing *q, const char *src, int64_t iter);
void mf_missing_back(struct mf_missing *q, const char *src);
/* A round of n parts begins. MF_EIO: fewer than `required`. */
int mf_missing_round(struct mf_missing *q, int64_t iter, int n, int64_t required, struct mf_err *err);
void mf_missing_say(const struct mf_missing *q); /* a warning, unless no round lacks a part */
void mf_missing_release(struct mf_missing *q);

#endif
