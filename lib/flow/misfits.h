/* misfits.h - the tensors that do not fit a policy, as many by name as a sentence holds. Private to lib/flow. */
#ifndef MF_FLOW_MISFITS_H
#define MF_FLOW_MISFITS_H

#include "base/err.h"

struct mf_misfits {
    char text[360];
    int n, named;
};

void mf_misfit(struct mf_misfits *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* 0 where there are none, else MF_EFORMAT. */
int mf_misfits_end(const char *path, const struct mf_misfits *m, struct mf_err *err);

#endif
