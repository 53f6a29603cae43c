/* kernel.h - the CUDA form of an operation: a file kernel_NAME.cu, which defines mf_kernel_NAME. The Makefile lists the
 * table of them by these file names.
 *
 * Its functions enqueue kernels on the call's stream and return; they take no decision by what is in device memory, so
 * that a stream capture records them. What they compute is what dev/op.h says, with these rules beside:
 *
 * - Every number of a row is computed in an order that depends on shapes alone, never on the number of samples.
 * - Sums over samples are in the order of the samples, per lane. No atomics on floats.
 * - The last samples of a lane may be padding: copies of another sample, whose gradient is 0 in every loss. Adding a
 *   product with such a 0 changes no bit, so results do not depend on the padding.
 */
#ifndef MF_CUDA_KERNEL_H
#define MF_CUDA_KERNEL_H

#include <cuda_runtime.h>

extern "C" {
#include "dev/device.h"
#include "dev/op.h"
}

struct mf_kernel_call {
    /* Addresses are the device's; x and how are arrays of the host. work: as mf_kernel.work asks.
     * y.shared: the call runs once, n = lanes = 1, and all its operands are shared. Else the gradient of a shared
     * operand is one per lane, the first lane's at x[i].grad, the next lane's `stride` floats after it; add is then
     * set. A lane holds zeros before the first call adds to it. */
    struct mf_call call;
    int n;         /* samples: of lane l [l*n/lanes, (l+1)*n/lanes); lanes divides n */
    int lanes;     /* 1 where the call does not run backward */
    float *lane;   /* the first: call.dW and call.db count from here */
    size_t stride; /* floats from a lane to the next */
    enum mf_precision precision;
    bool x_bf16, y_bf16; /* the data of x[0], of y are stored as bf16 (store.cu) */
    cudaStream_t stream;
};

struct mf_kernel {
    const char *name; /* of the operation */
    cudaError_t (*forward)(const struct mf_kernel_call *k);
    cudaError_t (*backward)(const struct mf_kernel_call *k);       /* NULL: no gradient flows */
    size_t (*work)(const struct mf_kernel_call *k, bool backward); /* floats, by shapes, n and lanes; NULL: 0 */
    /* y as bf16, where nothing but the sign of a number of y is read by backward; NULL: false. */
    bool (*stores_bf16)(const struct mf_call *c);
};

extern const struct mf_kernel *const mf_kernels[]; /* ends with NULL; generated from the file names */

#endif
