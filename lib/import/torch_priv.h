/* torch_priv.h - what the files of torch.h share. */
#ifndef MF_IMPORT_TORCH_PRIV_H
#define MF_IMPORT_TORCH_PRIV_H

#include <stdio.h>

#include "import/pickle.h"
#include "import/torch.h"

/* By "FloatStorage" or "float32", n bytes; NULL: unknown. */
const struct mf_torch_dtype *mf_torch_dtype(const char *name, size_t n);

/* NULL: PyTorch has no storage of that type. */
const struct mf_torch_dtype *mf_torch_dtype_of(enum mf_dtype dtype);

/* torch_safetensors.c: is it a safetensors file, or an index of some? Fills f from it. */
bool mf_torch_is_safetensors(const char *path);
int mf_torch_open_safetensors(struct mf_torch *f, const char *path, struct mf_err *err);
void mf_torch_close_safetensors(struct mf_torch *f);

/* ---- what objects mean ---- */

bool mf_torch_object(const struct mf_pickle_node *x, const char *text);                 /* a call of that name? */
const struct mf_pickle_node *mf_torch_arg(const struct mf_pickle_node *args, size_t i); /* NULL: none */
const struct mf_pickle_node *mf_torch_unwrapped(const struct mf_pickle_node *x);        /* out of OmegaConf's nodes */
/* The bytes of BYTES, or of what protocol 2 writes for them: _codecs.encode(text, "latin1"). *own is the caller's. */
bool mf_torch_bytes(const struct mf_pickle_node *x, const char **p, size_t *n, char **own);
bool mf_torch_is_scalar(const struct mf_pickle_node *x);        /* a plain value, NumPy's too */
void mf_torch_scalar(FILE *to, const struct mf_pickle_node *x); /* other objects: "<module.Class>" */

/* Fill f's lists from the pickle; root is "archive", where the storages lie. */
int mf_torch_walk(struct mf_torch *f, const struct mf_pickle_node *tree, const char *root, struct mf_err *err);

#endif
