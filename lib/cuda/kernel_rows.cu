/* kernel_rows.cu - some rows of each sample: columns of samples. */
#include "cuda/strips.h"

static cudaError_t forward(const struct mf_kernel_call *k)
{
    struct mf_tensor x;
    struct mf_kernel_call flat = mf_flat_call(k, &x);
    return mf_columns_forward(&flat, *(const int *)k->call.how * k->call.y.cols);
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    struct mf_tensor x;
    struct mf_kernel_call flat = mf_flat_call(k, &x);
    return mf_columns_backward(&flat, *(const int *)k->call.how * k->call.y.cols);
}

extern const struct mf_kernel mf_kernel_rows = {"rows", forward, backward, NULL};
