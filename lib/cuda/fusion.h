/* fusion.h - what takes several calls that follow one another in fewer launches than their own kernels: a file
 * fusion_NAME.cu, which defines mf_fusion_NAME. The Makefile lists the table of them by these file names.
 *
 * Forward, a fusion computes all results of its calls, aux included, to the bits that the calls' own kernels compute.
 * It reads an element of an operand that has the rows and columns of a result before it writes that element of any
 * result, by the same thread. What else it reads overlaps no result: calls for which that does not hold are not fused
 * (fuse.cu).
 *
 * Backward, it computes what the calls' own kernels leave for others: a gradient that no other call reads may be
 * undefined. It takes calls only where the places of their gradients allow its order.
 */
#ifndef MF_CUDA_FUSION_H
#define MF_CUDA_FUSION_H

#include "cuda/kernel.h"

enum { MF_FUSED = 3 }; /* calls, at most */

struct mf_fusion {
    /* NULL: none. How many calls it takes of the n <= MF_FUSED from k[0] on, computed by kernel[0..], in waves
     * of at most so many samples; 0: none. None is shared. */
    int (*takes)(const struct mf_kernel *const *kernel, const struct mf_kernel_call *k, int n, int samples);
    cudaError_t (*forward)(const struct mf_kernel *const *kernel, const struct mf_kernel_call *k, int n);
    /* The same of n calls in the order of backward; NULL: none. */
    int (*takes_back)(const struct mf_kernel *const *kernel, const struct mf_kernel_call *k, int n, int samples);
    cudaError_t (*backward)(const struct mf_kernel *const *kernel, const struct mf_kernel_call *k, int n);
};

/* The numbers of a tensor, or of its gradient; t NULL: others. */
struct mf_extent {
    const float *at; /* NULL: none */
    size_t floats;
    const struct mf_tensor *t;
};
struct mf_extent mf_extent_of(const float *at, const struct mf_tensor *t, int n);
bool mf_apart(const struct mf_extent &a, const struct mf_extent &b);
bool mf_same_place(const struct mf_extent &a, const struct mf_extent &b); /* each element is overwritten by itself */

extern const struct mf_fusion *const mf_fusions[]; /* ends with NULL; generated from the file names */

#endif
