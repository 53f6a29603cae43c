/* safetensors_priv.h - what the reader and the writer of safetensors files share. */
#ifndef MF_RUN_SAFETENSORS_PRIV_H
#define MF_RUN_SAFETENSORS_PRIV_H

#include "base/err.h"
#include "run/safetensors.h"

enum { MF_SAFETENSORS_HEADER_MAX = 100 * 1000 * 1000 };

const char *mf_safetensors_word(enum mf_dtype dtype); /* "F32" */

void mf_safetensors_sort(struct mf_array *tensors, int n, struct mf_meta *meta, int n_meta); /* by name, by key */

#endif
