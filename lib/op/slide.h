/* slide.h - windows that slide over the rows of a block: the loops of op_unfold.c and op_fold.c, each of which is the
 * other's backward.
 */
#ifndef MF_OP_SLIDE_H
#define MF_OP_SLIDE_H

#include "op/how.h"

/* to[t, c*kernel + j] = x[t*stride + j - pad, c], or += where it adds; `wide` and `x` are their tensors. */
void mf_slide_gather(const struct mf_call *c, int n, const struct mf_tensor *wide, const struct mf_tensor *x,
                     const float *from, float *to, bool add);
/* to[t*stride + j - pad, c] += wide[t, c*kernel + j] */
void mf_slide_scatter(const struct mf_call *c, int n, const struct mf_tensor *wide, const struct mf_tensor *x,
                      const float *from, float *to);

#endif
