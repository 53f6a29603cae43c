/* kernel_cols.cu - some columns. */
#include "cuda/strips.h"

static cudaError_t forward(const struct mf_kernel_call *k)
{
    return mf_columns_forward(k, *(const int *)k->call.how);
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    return mf_columns_backward(k, *(const int *)k->call.how);
}

extern const struct mf_kernel mf_kernel_cols = {"cols", forward, backward, NULL};
