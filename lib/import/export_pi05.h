/* export_pi05.h - a checkpoint of pi0.5 as openpi's safetensors.torch.save_model writes one. */
#ifndef MF_IMPORT_EXPORT_PI05_H
#define MF_IMPORT_EXPORT_PI05_H

#include "run/safetensors.h"
#include "stream/frame.h"

enum { MF_PI05_META = 5 };

/* Of the tensors t of the checkpoint f, leaves the published ones alone, and names the embedding as the language
 * model's head, which is the same matrix: the first of *meta says so, as that function does; the others are settings
 * that no shape tells, for mf-ckpt import. Returns how many of meta there are. The action expert's unused head is not
 * written. 0: t is no pi0.5, and nothing changed. */
int mf_pi05_export(const struct mf_safetensors *f, struct mf_array *t, int *n, struct mf_meta meta[MF_PI05_META]);

#endif
