/* strips.h - copies of strips of columns: what the operations do that only move numbers, concat, stack, cols and rows.
 */
#ifndef MF_CUDA_STRIPS_H
#define MF_CUDA_STRIPS_H

#include <vector>

#include "cuda/launch.h"

/* Row i of `to` becomes the row of `from` that it reads, or has it added. NULL from: becomes 0. */
struct mf_strip {
    float *to;
    const float *from;
    int ld_to, ld_from, cols; /* ld: floats from a row to the next */
    struct mf_spreading spread;
    bool add;
};

/* n strips of `rows` rows, no two of which write the same place. */
cudaError_t mf_strips(cudaStream_t stream, int rows, int n, const struct mf_strip *strip);

/* What forward copies to each of y's rows. */
std::vector<mf_strip> mf_strips_of(const struct mf_kernel_call *k);
struct mf_strip mf_columns_of(const struct mf_kernel_call *k, int from);

/* Forward: y's rows are those of its operands side by side. Backward: the operands' gradients. */
cudaError_t mf_strips_forward(const struct mf_kernel_call *k);
cudaError_t mf_strips_backward(const struct mf_kernel_call *k);

/* The same with columns [from, from + y.cols) of one operand. */
cudaError_t mf_columns_forward(const struct mf_kernel_call *k, int from);
cudaError_t mf_columns_backward(const struct mf_kernel_call *k, int from);

/* A call whose tensors have one row a sample, of all their numbers; x: room for its operands. */
struct mf_kernel_call mf_flat_call(const struct mf_kernel_call *k, struct mf_tensor *x);

#endif
