/* export.h - what leaves a checkpoint: the policy alone, with the tensor names and shapes of the original code, for use
 * without maniflow; or its averaged weights.
 */
#ifndef MF_IMPORT_EXPORT_H
#define MF_IMPORT_EXPORT_H

#include "base/err.h"
#include "flow/checkpoint.h"

/* Writes the policy of the checkpoint `from` as the file `to`, whose ending selects the format: .pt, .pth or .ckpt
 * (PyTorch's), or .safetensors. auto: a clone's averaged weights, the raw ones of another. MF_EUSAGE: another ending;
 * averaged weights are asked for and there are none; the prefix of all names (or NULL) makes one too long. */
int mf_export(const char *from, enum mf_weights which, const char *prefix, const char *to, struct mf_err *err);
/* A copy of a checkpoint with the averaged weights in the place of the raw ones, without what training alone needs.
 * MF_EUSAGE: it has none. */
int mf_export_average(const char *from, const char *to, struct mf_err *err);

#endif
