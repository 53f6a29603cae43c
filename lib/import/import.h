/* import.h - a policy that was trained with PyTorch, imported as a checkpoint.
 *
 * The layout of the file (torch_show.h) gives the dictionaries of the weights and of their average (EMA); parameter
 * names give the network's family. A family is one file, import_NAME.c, and one row in import.c. Our parameters have
 * the published names, so that a family holds the prefixes that differ and how sizes follow from shapes.
 *
 * Tensors are copied in pieces: memory does not grow with the file.
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

/* What an encoder does with color channels in [0, 1]: x*scale + offset. */
struct mf_pixels {
    double scale[3], offset[3];
};

/* Tensors that the policy does not use: their prefix, and why. */
struct mf_left {
    const char *prefix, *why;
};

struct mf_import {
    struct mf_torch file;
    struct mf_torch_layout layout;
    char **key;        /* (file.n) each tensor's key within its dictionary, without the wrappers' prefixes */
    char without[160]; /* those prefixes: "'module.', '_orig_mod.'" */
    const struct mf_family *family;
    const struct mf_rename *in_force[8]; /* rows of family->names, one for each of our prefixes in the file */
    int n_in_force;
    const struct mf_pixels *pixels; /* of the family's code, beside the file's normaliser; NULL: none */
    bool keep_bf16;                 /* set by the caller: matrices that are bfloat16 stay so */
    bool encoder_alone;             /* the file has no network: a fresh one is written */
    char assumed[600];              /* what neither the file nor a key says, as a sentence; "": nothing */
    const struct mf_left *left;     /* after save: the first row whose tensors were not imported */
    int n_left;                     /* tensors */
};

/* What the file lacks: from the command line and the environment. */
struct mf_import_world {
    const struct mf_conf *conf;
    const struct mf_names *keys; /* policy.obs_keys */
    const struct mf_layout *obs; /* of the environment or the demonstrations that the user named; NULL: neither */
    int A;                       /* its actions */
    const char *tokenizer;       /* digest of the tokenizer of its tokens; NULL: unknown */
    int pieces;                  /* that it knows */
};

struct mf_family {
    const char *name;
    const char *const *anchors;    /* parameters that show that a prefix is in the file; ends with NULL */
    const struct mf_rename *names; /* of each prefix of ours the first in the file counts; ends with {NULL} */
    const struct mf_left *left;    /* ends with {NULL} */
    /* Completes s, which has the values of the keys, from names, shapes and the file's configuration: network, widths,
     * critic, noise network, observations, horizon, actions. MF_EUSAGE names the keys that are missing. */
    int (*describe)(struct mf_import *im, struct mf_policy_spec *s, const struct mf_import_world *w,
                    struct mf_err *err);
};

/* MF_EFORMAT where no known layout or family matches, with the file's prefixes, or where two weights have one name. */
int mf_import_open(struct mf_import *im, const char *path, struct mf_err *err);
void mf_import_close(struct mf_import *im);

/* The tensor that the parameter `ours` comes from; NULL: none. */
const struct mf_torch_tensor *mf_import_find(const struct mf_import *im, const char *dictionary, const char *ours);
/* Dimension d of a weight; 0: there is none. */
int mf_import_dim(const struct mf_import *im, const char *ours, int d);

/* The observations for which the file's normaliser has vectors, in its order, which is that of the state. */
void mf_import_seen(const struct mf_import *im, struct mf_names *seen);

/* The spec from the file and the keys. MF_EUSAGE names the keys that are missing or contradict the file. */
int mf_import_spec(struct mf_import *im, struct mf_policy_spec *s, const struct mf_import_world *w, struct mf_err *err);

/* Is `from` a file of demonstrations? The second gives their observations of these keys, and their action dim A. */
bool mf_import_is_demos(const char *from);
int mf_import_demos(const char *path, const struct mf_names *keys, struct mf_layout *obs, int *A, struct mf_err *err);

/* Sets p's normaliser from `from` (identity, .npz, .json, .hdf5), or from the imported file (NULL); MF_EUSAGE with
 * advice where that has none. */
int mf_import_normalizer(struct mf_import *im, struct mf_policy *p, const char *from, struct mf_err *err);

/* Writes the checkpoint of p, which has a spec and a normaliser. MF_EFORMAT names each tensor that is missing, left
 * over or of another shape. */
int mf_import_save(struct mf_import *im, struct mf_policy *p, const char *path, struct mf_err *err);

#endif
