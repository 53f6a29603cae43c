/* import.h - weights that PyTorch trained, as a checkpoint of ours.
 *
 * The dictionary of the weights and that of their average are found by the
 * layout of the file (data/torch_show.h), what network they are by a family's
 * names. A family is one file, import_NAME.c, and one row in import.c: our
 * parameters are named as the published ones, so that it says little more
 * than which prefixes differ and how sizes are read off the shapes.
 *
 * Tensors go from file to file in pieces: memory does not grow with them.
 */
#ifndef MF_IMPORT_IMPORT_H
#define MF_IMPORT_IMPORT_H

#include "conf/conf.h"
#include "flow/policy.h"
#include "import/torch_show.h"
#include "flow/spec_keys.h"

struct mf_rename {
    const char *ours, *theirs; /* prefixes: "network.", "actor_ft.policy." */
};

/* Tensors that may be there beside those in force: by their prefix, and why they have no part in the policy. */
struct mf_left {
    const char *prefix, *why;
};

struct mf_import {
    struct mf_torch file;
    struct mf_torch_layout layout;
    char **key;        /* (file.n) each tensor's key within its dictionary, without the wrappers' words */
    char without[160]; /* those words: "'module.', '_orig_mod.'" */
    const struct mf_family *family;
    const struct mf_rename *in_force[8]; /* of family->names, one for each prefix of ours that is there */
    int n_in_force;
    const struct mf_left *left; /* after save: the first of what was left behind */
    int n_left;                 /* tensors */
};

/* What the file does not say. */
struct mf_import_world {
    const struct mf_conf *conf;
    const struct mf_names *keys; /* policy.obs_keys */
    const struct mf_layout *obs; /* of the environment, or of the demonstrations, that was named; NULL: none was */
    int A;                       /* its actions */
};

struct mf_family {
    const char *name;
    const char *const *anchors;    /* parameters by which a prefix is known to be there; ends with NULL */
    const struct mf_rename *names; /* the first of a prefix of ours that is there counts; ends with {NULL} */
    const struct mf_left *left;    /* ends with {NULL} */
    /* What names, shapes and configuration say of s, which has the keys' values: network, widths, critic, noise net,
     * observations, horizon, actions. MF_EUSAGE names the keys that are missing. */
    int (*describe)(struct mf_import *im, struct mf_policy_spec *s, const struct mf_import_world *w,
                    struct mf_err *err);
};

/* MF_EFORMAT where no layout or no family fits, with what is in the file, or where two of its weights have one name. */
int mf_import_open(struct mf_import *im, const char *path, struct mf_err *err);
void mf_import_close(struct mf_import *im);

/* The tensor that the parameter `ours` comes from; NULL: none. */
const struct mf_torch_tensor *mf_import_find(const struct mf_import *im, const char *dictionary, const char *ours);
/* Dimension d of a weight; 0: there is none. */
int mf_import_dim(const struct mf_import *im, const char *ours, int d);

/* The observations that the file's normaliser has vectors for, in its order: that of the state. */
void mf_import_seen(const struct mf_import *im, struct mf_names *seen);

/* The spec that the file and the keys say together. MF_EUSAGE names the keys that are missing, or that contradict the
 * file. */
int mf_import_spec(struct mf_import *im, struct mf_policy_spec *s, const struct mf_import_world *w, struct mf_err *err);

/* Is this normaliser a file of demonstrations? Then they have the observations of these names, and actions of A. */
bool mf_import_is_demos(const char *from);
int mf_import_demos(const char *path, const struct mf_names *keys, struct mf_layout *obs, int *A, struct mf_err *err);

/* p's normaliser: of `from` (identity, .npz, .hdf5), or (NULL) of the file; MF_EUSAGE with advice where it has none. */
int mf_import_normalizer(struct mf_import *im, struct mf_policy *p, const char *from, struct mf_err *err);

/* Write the checkpoint of p, an outline with a normaliser. MF_EFORMAT names each tensor that is missing, left over or
 * misshapen. */
int mf_import_save(struct mf_import *im, struct mf_policy *p, const char *path, struct mf_err *err);

#endif
