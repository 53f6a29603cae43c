/* mismatches.h - collects the tensors that do not match a policy: names for one error message, and their number. */
#ifndef MF_FLOW_MISMATCHES_H
#define MF_FLOW_MISMATCHES_H

#include <stddef.h>

#include "base/err.h"

struct mf_mismatches {
    char text[360];
    int n, named;
};

void mf_mismatch(struct mf_mismatches *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "NAME is (8, 3) and should be (3)" */
void mf_mismatch_shape(struct mf_mismatches *m, const char *name, int rank, const size_t *dim, int wanted_rank,
                       const size_t *wanted);
/* 0 where there are none, else MF_EFORMAT. */
int mf_mismatches_end(const char *path, const struct mf_mismatches *m, struct mf_err *err);

#endif
