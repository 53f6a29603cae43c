/* export_pi05.h - a checkpoint of pi0.5 as openpi's safetensors.torch.save_model writes one. */
#ifndef MF_IMPORT_EXPORT_PI05_H
#define MF_IMPORT_EXPORT_PI05_H

#include "run/safetensors.h"
#include "stream/frame.h"

/* Leaves the published tensors alone, and names the embedding as the language model's head, which is the same matrix:
 * *meta says so, as that function does. The action expert's unused head is not written. False: t is no pi0.5, and
 * nothing changed. */
bool mf_pi05_export(struct mf_array *t, int *n, struct mf_meta *meta);

#endif
