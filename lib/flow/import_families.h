/* import_families.h - the families that import.c knows. Private to lib/flow. */
#ifndef MF_FLOW_IMPORT_FAMILIES_H
#define MF_FLOW_IMPORT_FAMILIES_H

#include "flow/import.h"

extern const struct mf_family mf_family_reinflow, mf_family_maniflow, mf_family_unet;

/* Rows of the layers prefixI.suffix, I = first..; returns how many. */
int mf_import_rows(const struct mf_import *im, const char *prefix, int first, const char *suffix, int *rows);
/* Hidden widths of a ResidualMLP: its first layer's, twice more for each block. Returns the rows of the last layer. */
int mf_import_residual(const struct mf_import *im, const char *prefix, int *n, int hidden[MF_DIMS_MAX]);
/* ReinFlow's critic and noise net, where they are. */
void mf_import_heads(const struct mf_import *im, struct mf_policy_spec *s);
/* *v becomes what the file's configuration says, unless the key was set: true where either knows. */
bool mf_import_known(const struct mf_import *im, const struct mf_import_world *w, const char *key, const char *cfg,
                     int *v);
/* Of a horizon that is known: what of it is executed, from the newest observation on unless a key or the configuration
 * says otherwise, and the denoising steps. */
void mf_import_chunk(const struct mf_import *im, const struct mf_import_world *w, struct mf_policy_spec *s);

#endif
