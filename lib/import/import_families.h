/* import_families.h - the families of networks, and what they share. Private to lib/import. */
#ifndef MF_IMPORT_IMPORT_FAMILIES_H
#define MF_IMPORT_IMPORT_FAMILIES_H

#include "flow/spec.h"
#include "graph/graph.h"
#include "import/import.h"
#include "nn/net.h"

extern const struct mf_family mf_family_reinflow, mf_family_maniflow, mf_family_unet, mf_family_plain_conv,
    mf_family_nature, mf_family_vit, mf_family_resnet_spatial, mf_family_resnet_mean, mf_family_pi05;
/* Of ReinFlow's and DPPO's files, of states and of pictures. */
extern const struct mf_rename mf_reinflow_names[];
extern const struct mf_left mf_reinflow_left[];

/* Fills im->key: the names without the prefixes of torch.compile, DDP and FSDP; those of a dictionary beside the
 * weights with its own. */
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
/* Is t in that dictionary, or in the one beside it? */
bool mf_import_within(const struct mf_import *im, const struct mf_torch_tensor *t, const char *dictionary);
/* Is it the pattern, whose first '*', if any, stands for a part of the name? */
bool mf_import_matches(const char *name, const char *pattern);
/* The tensor before+rest, rest a pattern; NULL: none. */
const struct mf_torch_tensor *mf_import_tensor(const struct mf_import *im, const char *dictionary, const char *before,
                                               const char *rest);

/* Rows of the layers prefixI.suffix, I = first..; returns how many. */
int mf_import_rows(const struct mf_import *im, const char *prefix, int first, const char *suffix, int *rows);
/* Hidden widths of a ResidualMLP: its first layer's, twice more for each block. Returns the rows of the last layer. */
int mf_import_residual(const struct mf_import *im, const char *prefix, int *n, int hidden[MF_DIMS_MAX]);
/* Sets the sizes of ReinFlow's critic and noise network, where the file has them. */
void mf_import_heads(const struct mf_import *im, struct mf_policy_spec *s);
/* Adds to *l the observations of a file that is imported without an environment: `state` low-dimensional numbers, named
 * by policy.obs_keys, else by the normaliser, else all of them `otherwise`; and the point cloud (NULL: none), at its
 * place in policy.obs_keys, else first. Names that *l has are passed over. MF_EUSAGE where the names do not add up to
 * `state`. */
int mf_import_observe(const struct mf_import *im, const struct mf_import_world *w, int state, const char *otherwise,
                      const struct mf_obs *cloud, struct mf_layout *l, struct mf_err *err);
/* Adds an observation whose shape the file gives. MF_EFORMAT: it is no observation, or one too many. */
int mf_import_add(const struct mf_import *im, struct mf_layout *l, const struct mf_obs *o, struct mf_err *err);
/* The value of the file's configuration; NULL: none. */
const char *mf_import_configured(const struct mf_import *im, const char *name);
/* Adds to im->assumed. */
void mf_import_assume(struct mf_import *im, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* ---- encoders of pictures ---- */

/* Anchors and names of encoders that stand beside a network. */
#define MF_ENCODER_ANCHORS                                                                                             \
    "visual_encoder.cnn.0.weight", "feature_net.extractors.rgb.0.0.weight",                                            \
        "obs_encoder.obs_nets.*.nets.0.nets.0.weight", "obs_encoder.key_model_map.*.layer1.0.conv1.weight"
#define MF_ENCODER_NAMES                                                                                               \
    {"visual_encoder.", "visual_encoder."}, {"feature_net.", "feature_net."},                                          \
    {                                                                                                                  \
        "obs_encoder.", "obs_encoder."                                                                                 \
    }

struct mf_pictured { /* what an encoder in a file reads and gives */
    int channels;    /* of all pictures of a step; 0: the file has no encoder */
    int width;       /* of the code of a step */
    int side;        /* of pictures, where no key says it */
    bool sure;       /* the file says the side */
    bool named;      /* pictures are those of `camera`, in its order; else named where nothing else names them */
    struct mf_names camera;
};
/* Sets net's encoder and its sizes from the file's shapes and configuration. */
int mf_import_encoder(struct mf_import *im, struct mf_net_spec *net, const struct mf_import_world *w,
                      struct mf_pictured *found, struct mf_err *err);
/* 1 and the numbers of picture."what", what KEY.scale or KEY.offset: of a byte 0 to 255, then the file's normaliser for
 * that picture, then im->pixels. 0: it is no color picture, or the file and its family have neither. */
int mf_import_pixels(struct mf_import *im, const char *what, const struct mf_param *p, float to[3], struct mf_err *err);
bool mf_import_has_resnet(const struct mf_import *im);
int mf_import_resnet(struct mf_import *im, struct mf_net_spec *net, const struct mf_import_world *w,
                     struct mf_pictured *found, struct mf_err *err);
/* Is the weight or bias of a convolution one into which the batch norm after it is folded? */
bool mf_import_folds(const struct mf_import *im, const char *dictionary, const char *ours);
/* Marks that norm's tensors. False: one is missing, or is not p->cols numbers, of a bias. */
bool mf_import_norm_used(const struct mf_import *im, const char *dictionary, const struct mf_param *p, bool *used);
/* Numbers [first, first + n) of the weight, which are in `to`, or of the bias, with that norm. */
int mf_import_fold(struct mf_import *im, const char *dictionary, const struct mf_param *p, size_t first, size_t n,
                   float *to, struct mf_err *err);
/* *l becomes the environment's observation, pictures first; without an environment, the pictures of policy.obs_keys, or
 * cameras of the published names. MF_EUSAGE: the pictures have another number of channels. */
int mf_import_pictures(struct mf_import *im, const struct mf_import_world *w, const struct mf_pictured *found,
                       struct mf_layout *l, struct mf_err *err);

/* *v becomes the value `cfg` of the file's configuration unless the key was set. False: neither is there. */
bool mf_import_known(const struct mf_import *im, const struct mf_import_world *w, const char *key, const char *cfg,
                     int *v);
/* The same, and where neither is there *v is assumed (mf_import_assume). */
void mf_import_expect(struct mf_import *im, const struct mf_import_world *w, const char *key, const char *cfg, int *v);
/* Sets the executed part of a known horizon, from the newest observation on unless a key or the file's configuration
 * gives another, and the denoising steps. */
void mf_import_chunk(struct mf_import *im, const struct mf_import_world *w, struct mf_policy_spec *s);

#endif
