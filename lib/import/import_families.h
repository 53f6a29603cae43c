/* import_families.h - the families of networks, and what they share. Private to lib/import. */
#ifndef MF_IMPORT_IMPORT_FAMILIES_H
#define MF_IMPORT_IMPORT_FAMILIES_H

#include "flow/spec.h"
#include "import/import.h"
#include "nn/net.h"

extern const struct mf_family mf_family_reinflow, mf_family_maniflow, mf_family_unet;

/* Fills im->key: the names without the prefixes of torch.compile, DDP and FSDP. */
void mf_import_names(struct mf_import *im);
/* Removes from all names the prefix below which the name theirs+rest lies: 1; 0: there is none. MF_EFORMAT where it
 * lies below two. */
int mf_import_outer(struct mf_import *im, const char *theirs, const char *rest, struct mf_err *err);
/* Removes the first word, common to all names of the weights, and appends it to `prefix`. False: there is none. */
bool mf_import_common(struct mf_import *im, char *prefix, size_t size);
/* Adds the prefix to im->without. */
void mf_import_note(struct mf_import *im, const char *prefix);
/* MF_EFORMAT where two weights have one name: two paths through the dictionaries may read the same, a: {b.c} and
 * a.b: {c}, and so may two names without their prefixes. */
int mf_import_twins(const struct mf_import *im, struct mf_err *err);
/* The tensor before+rest; NULL: none. */
const struct mf_torch_tensor *mf_import_tensor(const struct mf_import *im, const char *dictionary, const char *before,
                                               const char *rest);

/* Rows of the layers prefixI.suffix, I = first..; returns how many. */
int mf_import_rows(const struct mf_import *im, const char *prefix, int first, const char *suffix, int *rows);
/* Hidden widths of a ResidualMLP: its first layer's, twice more for each block. Returns the rows of the last layer. */
int mf_import_residual(const struct mf_import *im, const char *prefix, int *n, int hidden[MF_DIMS_MAX]);
/* Sets the sizes of ReinFlow's critic and noise network, where the file has them. */
void mf_import_heads(const struct mf_import *im, struct mf_policy_spec *s);
/* *l becomes the observations of a file that is imported without an environment: `state` low-dimensional numbers, named
 * by policy.obs_keys, else by the normaliser, else all of them `otherwise`; and the point cloud (NULL: none), at its
 * place in policy.obs_keys, else first. MF_EUSAGE where the names do not add up to `state`. */
int mf_import_observe(const struct mf_import *im, const struct mf_import_world *w, int state, const char *otherwise,
                      const struct mf_obs *cloud, struct mf_layout *l, struct mf_err *err);
/* *v becomes the value `cfg` of the file's configuration unless the key was set. False: neither is there. */
bool mf_import_known(const struct mf_import *im, const struct mf_import_world *w, const char *key, const char *cfg,
                     int *v);
/* Sets the executed part of a known horizon, from the newest observation on unless a key or the file's configuration
 * gives another, and the denoising steps. */
void mf_import_chunk(const struct mf_import *im, const struct mf_import_world *w, struct mf_policy_spec *s);

#endif
