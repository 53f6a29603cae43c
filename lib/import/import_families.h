/* import_families.h - the families that import.c knows. Private to lib/flow. */
#ifndef MF_IMPORT_IMPORT_FAMILIES_H
#define MF_IMPORT_IMPORT_FAMILIES_H

#include "flow/spec.h"
#include "import/import.h"
#include "nn/net.h"

extern const struct mf_family mf_family_reinflow, mf_family_maniflow, mf_family_unet;

/* im->key: the names without the wrappers of torch.compile, DDP and FSDP. */
void mf_import_names(struct mf_import *im);
/* Where the name theirs+rest is there below one prefix, take the prefix off all names: 1; 0: it is not. MF_EFORMAT
 * where it is below two. */
int mf_import_outer(struct mf_import *im, const char *theirs, const char *rest, struct mf_err *err);
/* Take off the word that all names of the weights begin with, and append it to `prefix`. False: they have none. */
bool mf_import_common(struct mf_import *im, char *prefix, size_t size);
/* The prefix belongs to im->without. */
void mf_import_note(struct mf_import *im, const char *prefix);
/* MF_EFORMAT where two of the weights have one name. Two ways through the dictionaries may be the same words, a: {b.c}
 * and a.b: {c}, and so may two names without their wrappers. */
int mf_import_twins(const struct mf_import *im, struct mf_err *err);
/* The tensor before+rest; NULL: none. */
const struct mf_torch_tensor *mf_import_tensor(const struct mf_import *im, const char *dictionary, const char *before,
                                               const char *rest);

/* Rows of the layers prefixI.suffix, I = first..; returns how many. */
int mf_import_rows(const struct mf_import *im, const char *prefix, int first, const char *suffix, int *rows);
/* Hidden widths of a ResidualMLP: its first layer's, twice more for each block. Returns the rows of the last layer. */
int mf_import_residual(const struct mf_import *im, const char *prefix, int *n, int hidden[MF_DIMS_MAX]);
/* ReinFlow's critic and noise net, where they are. */
void mf_import_heads(const struct mf_import *im, struct mf_policy_spec *s);
/* *l becomes the observations of a file that is imported without an environment: `state` low-dimensional numbers, which
 * policy.obs_keys name, else the normaliser, else `otherwise` is their one name; and the cloud (NULL: none), at its
 * place in policy.obs_keys or first. MF_EUSAGE where the names cannot be those. */
int mf_import_observe(const struct mf_import *im, const struct mf_import_world *w, int state, const char *otherwise,
                      const struct mf_obs *cloud, struct mf_layout *l, struct mf_err *err);
/* *v becomes what the file's configuration says, unless the key was set: true where either knows. */
bool mf_import_known(const struct mf_import *im, const struct mf_import_world *w, const char *key, const char *cfg,
                     int *v);
/* Of a horizon that is known: what of it is executed, from the newest observation on unless a key or the configuration
 * says otherwise, and the denoising steps. */
void mf_import_chunk(const struct mf_import *im, const struct mf_import_world *w, struct mf_policy_spec *s);

#endif
