/* dev.h - a device: one table of operations, and how it multiplies matrices.
 *
 * "ref" is the meaning: plain loops. "cpu" is the same, fast, by own kernels
 * as wide as the processor. "cuda:0" is there in a build with a dev_cuda.cu
 * and nvcc, which no build is yet.
 *
 * What a plan promises, so that a device may record a run once (a CUDA Graph):
 * two lists of calls, of what all samples share and of a tile, are fixed when
 * the plan is made, every tensor of theirs lies at a fixed place, nothing on
 * the host branches on what they compute, and gradients go to a lane whose
 * address alone changes from tile to tile.
 */
#ifndef MF_DEV_DEV_H
#define MF_DEV_DEV_H

#include "base/err.h"
#include "dev/op.h"

enum mf_precision { MF_FP32, MF_BF16 };

struct mf_ops {
    const char *name;
    struct mf_kernel op[MF_OPS];
};

extern const struct mf_ops mf_ops_ref, mf_ops_cpu;
extern const struct mf_ops *const mf_ops_cuda; /* NULL in a build without CUDA */

struct mf_dev {
    const struct mf_ops *ops;
    const struct mf_products *products; /* NULL: the device reads W itself */
};

/* MF_EUSAGE where this build or processor has no such device or precision. */
int mf_dev_find(struct mf_dev *dev, const char *name, enum mf_precision precision, struct mf_err *err);

#endif
