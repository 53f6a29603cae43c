/* kernel_stack.cu - operands one below the other: samples side by side. */
#include <vector>

#include "cuda/strips.h"

static cudaError_t forward(const struct mf_kernel_call *k)
{
    std::vector<mf_tensor> x(k->call.n_x);
    struct mf_kernel_call flat = mf_flat_call(k, x.data());
    return mf_strips_forward(&flat);
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    std::vector<mf_tensor> x(k->call.n_x);
    struct mf_kernel_call flat = mf_flat_call(k, x.data());
    return mf_strips_backward(&flat);
}

extern const struct mf_kernel mf_kernel_stack = {"stack", forward, backward, NULL};
