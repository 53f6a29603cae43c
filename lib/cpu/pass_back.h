/* pass_back.h - the gradient of a sum, and of bias and residuals of a product. */
#ifndef MF_CPU_PASS_BACK_H
#define MF_CPU_PASS_BACK_H

#include "dev/op.h"

/* Multiplies y.grad by the derivative of the activation, and passes it to the gradients of the operands from `first` on
 * and to db, row by row while the row is in the cache. Lists in `live` the rows with a gradient that is not 0, and
 * returns their number; db, live: or NULL. */
int mf_pass_back(const struct mf_call *c, int n, int first, enum mf_act act, float *db, int *live);

#endif
