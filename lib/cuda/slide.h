/* slide.h - windows that slide over the rows of a block: unfold and fold, each of which is the other's backward. */
#ifndef MF_CUDA_SLIDE_H
#define MF_CUDA_SLIDE_H

#include "cuda/launch.h"

/* wide[t, c*kernel + j] = x[t*stride + j - pad, c], 0 outside the block; or += where it adds. `wide` and `x` are the
 * call's tensors, whose numbers go from x at `from` to wide at `to`. */
cudaError_t mf_slide_apart(const struct mf_kernel_call *k, const struct mf_tensor *wide, const struct mf_tensor *x,
                           const float *from, float *to, bool add);
/* x[p, c] = the sum of wide[t, c*kernel + p + pad - t*stride] over the windows t that p is in, in order; or += .. */
cudaError_t mf_slide_together(const struct mf_kernel_call *k, const struct mf_tensor *wide, const struct mf_tensor *x,
                              const float *from, float *to, bool add);

#endif
