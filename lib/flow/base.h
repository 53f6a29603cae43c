/* base.h - the base of a checkpoint: another one, the file or link `base` beside it, whose frozen matrices it leaves
 * out and whose digest its metadata `base` has.
 */
#ifndef MF_FLOW_BASE_H
#define MF_FLOW_BASE_H

#include "base/err.h"
#include "run/safetensors.h"

#define MF_BASE "base"

/* Of names, types, shapes, metadata, size, and 4 KiB at both ends of each tensor, so that files of gigabytes open at
 * once: it tells files apart, and does not show that every number in between is the same. */
void mf_base_digest(const struct mf_safetensors *f, char hex[17]);

/* Where the file f at `path` names a base, opens it and adds its weights to f's tensors; else *base is zeroed. Both are
 * closed by the caller, f first. MF_EIO or MF_EFORMAT where it is absent, MF_EUSAGE where it is another one. */
int mf_base_join(struct mf_safetensors *f, struct mf_safetensors *base, const char *path, struct mf_err *err);
/* `base` beside path. */
void mf_base_path(const char *path, char *to, size_t size);

#endif
