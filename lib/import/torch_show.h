/* torch_show.h - which of the known layouts a PyTorch file has, and what is in it, for people and for jq. */
#ifndef MF_IMPORT_TORCH_SHOW_H
#define MF_IMPORT_TORCH_SHOW_H

#include <stdio.h>

#include "import/torch.h"

/* Where a file keeps its weights: the dictionary of their tensors, "state_dicts.model", or "" the outermost. */
struct mf_torch_layout {
    const char *name;
    const char *weights, *average; /* average: of the weights (EMA); NULL: none */
};

/* {NULL} where the file has none that is known. */
struct mf_torch_layout mf_torch_layout(const struct mf_torch *f);

/* Is t in that dictionary, and not in one below? */
bool mf_torch_within(const struct mf_torch_tensor *t, const char *dictionary);

/* Layout, values, tensors; as JSON in the form of a safetensors header, values under __metadata__. */
void mf_torch_show(const struct mf_torch *f, bool json, FILE *to);

/* Does the file begin as those do that mf_torch_open reads, or tells apart? */
bool mf_torch_is(const char *path);

#endif
