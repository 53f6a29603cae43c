/* torch_show.h - the layout of a PyTorch file, and its content printed as text or JSON. */
#ifndef MF_IMPORT_TORCH_SHOW_H
#define MF_IMPORT_TORCH_SHOW_H

#include <stdio.h>

#include "import/torch.h"

/* The dictionary of a file's weights, "state_dicts.model", or "", the outermost. */
struct mf_torch_layout {
    const char *name;
    const char *weights, *average; /* average: of the weights (EMA); NULL: none */
    const char *beside;            /* weights that are not averaged; NULL: none */
};

/* {NULL}: the layout is unknown. */
struct mf_torch_layout mf_torch_layout(const struct mf_torch *f);

/* Is t in that dictionary, and not in one below? */
bool mf_torch_within(const struct mf_torch_tensor *t, const char *dictionary);

/* Layout, values, tensors; as JSON in the form of a safetensors header, values under __metadata__. */
void mf_torch_show(const struct mf_torch *f, bool json, FILE *to);

/* Does the file begin as a zip file or a bare pickle does, for which mf_torch_open has a result or advice? */
bool mf_torch_is(const char *path);

#endif
