/* linear.h - a product with a weight, in parts: its kernel runs one after the other, a fusion leaves some out.
 */
#ifndef MF_CUDA_LINEAR_H
#define MF_CUDA_LINEAR_H

#include "cuda/gemm.h"

extern "C" {
#include "op/how.h"
}

static inline const struct mf_linear_how *mf_linear_how_of(const struct mf_call *c)
{
    return (const struct mf_linear_how *)c->how;
}

struct mf_product mf_linear_product(const struct mf_kernel_call *k); /* forward; it refers to the call */

/* sum: of the result alone, whose product has no activation; or NULL. */
cudaError_t mf_linear_forward(const struct mf_kernel_call *k, const struct mf_kernel_call *sum);

/* The gradient of y becomes that before the activation, and those of residuals with its rows are complete. */
cudaError_t mf_linear_pass(const struct mf_kernel_call *k, bool live);
/* The rest, after that; the gradient of x goes onward (NULL: it stays). live, for both: one of them finds which rows
 * have a gradient, and leaves it in the call's scratch, where the gradient of W reads it. */
cudaError_t mf_linear_rest(const struct mf_kernel_call *k, bool live, const struct mf_onward *on);

#endif
