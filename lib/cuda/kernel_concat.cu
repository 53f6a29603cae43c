/* kernel_concat.cu - operands side by side. */
#include "cuda/strips.h"

extern const struct mf_kernel mf_kernel_concat = {"concat", mf_strips_forward, mf_strips_backward, NULL};
