/* dev.h - a device: the forms of operations that it has, and how it multiplies matrices.
 *
 * "ref" runs the reference loops of every operation: the meaning. "cpu" is the
 * same, fast, by own kernels as wide as the processor.
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

struct mf_fast;
struct mf_products;

struct mf_dev {
    const struct mf_fast *const *fast;  /* fast forms of operations; NULL: none */
    const struct mf_products *products; /* of fast forms; NULL: none */
};

/* MF_EUSAGE where this build or processor has no such device or precision. */
int mf_dev_find(struct mf_dev *dev, const char *name, enum mf_precision precision, struct mf_err *err);

#endif
