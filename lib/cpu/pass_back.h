/* pass_back.h - the gradient of a sum, and of what is added to a product. */
#ifndef MF_CPU_PASS_BACK_H
#define MF_CPU_PASS_BACK_H

#include "dev/op.h"

/* y.grad becomes the gradient before the activation and goes on to the operands from `first` on and into db, row by
 * row, while the row is near. Lists in live the rows that have any, and returns how many; db, live: or NULL. */
int mf_pass_back(const struct mf_call *c, int n, int first, enum mf_act act, float *db, int *live);

#endif
