/* layout.h - the layout of an observation: named arrays, concatenated in one flat vector of floats.
 *
 * Environments, demonstrations, policies and networks share it. An array of three dimensions is a picture (height,
 * width, channels), rows from the top: uint8, or float32 for depth in meters. In the flat vector the bytes of a uint8
 * picture are packed, four in the place of a float, with zero bytes at the end: words that nobody may add or compare.
 * Any other uint8 becomes the float of the same value, 0 to 255. In streams and files a uint8 stays uint8.
 */
#ifndef MF_BASE_LAYOUT_H
#define MF_BASE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

enum { MF_OBS_KEYS = 16, MF_OBS_RANK = 3, MF_OBS_MAX = 1 << 24 /* numbers of an observation */ };

/* Arrays that are codes and not measurements: a network reads them as they are; their normaliser is the identity. */
#define MF_OBS_TOKENS     "tokens"     /* float32 (L): ids of a prompt's tokens, 0 behind its end */
#define MF_OBS_IMAGE_MASK "image_mask" /* float32 (I): 1 for each picture of the observation that is there, else 0 */

struct mf_obs {
    char name[64];        /* "point_cloud": array obs/point_cloud of the stream */
    int dim[MF_OBS_RANK]; /* {1024, 6}; 0 after the last */
    bool u8;              /* uint8, else float32 */
};

struct mf_layout {
    int n, dim; /* keys; floats of them all */
    struct mf_obs key[MF_OBS_KEYS];
};

/* The fault in the name of an observation, as the end of a sentence; NULL: the name is valid. A name is 1 to 63 bytes
 * of UTF-8 without control characters. Slashes separate groups ("policy/joint_pos"); each part must be a valid name. */
const char *mf_obs_name_fault(const char *name);
/* Can the two names not be stored in one HDF5 file? They are equal, or one is a group of the other ("a" and "a/b"). */
bool mf_obs_names_clash(const char *a, const char *b);

int mf_obs_rank(const struct mf_obs *o);
const char *mf_obs_shape(const struct mf_obs *o, char text[64]); /* "float32 (1024, 6)"; returns text */
int mf_obs_count(const struct mf_obs *o);                        /* its elements: the product of its dims */
int mf_obs_size(const struct mf_obs *o);                         /* its floats in the flat vector */
bool mf_obs_fits(const struct mf_obs *o);                        /* has it at most MF_OBS_MAX numbers? */
/* Appends the observation. False: there are MF_OBS_KEYS already, or it does not fit. */
bool mf_layout_add(struct mf_layout *l, const struct mf_obs *o);
void mf_layout_drop(struct mf_layout *l, const char *name);                       /* a key, if it is there */
int mf_layout_column(const struct mf_layout *l, const char *name);                /* its first float; -1: no such key */
const struct mf_obs *mf_layout_find(const struct mf_layout *l, const char *name); /* NULL: no such key */
bool mf_obs_is_cloud(const struct mf_obs *o);                                     /* points (n, channels) */
bool mf_obs_is_picture(const struct mf_obs *o);                                   /* (height, width, channels) */
bool mf_obs_is_code(const struct mf_obs *o); /* MF_OBS_TOKENS or MF_OBS_IMAGE_MASK */
int mf_obs_features(const struct mf_obs *o); /* numbers that are normalised on their own: all, of a picture none */
int mf_layout_features(const struct mf_layout *l); /* of all keys */

/* The normaliser of a layout's features: normalised = x*scale + offset. */
struct mf_affine {
    const float *scale, *offset; /* (mf_layout_features) */
};
/* The only normalisation, so that its bits agree everywhere: in float; in double from an offset of MF_FAR on, where
 * float would round away a narrow range far from 0. */
enum { MF_FAR = 4096 };
void mf_normalize(size_t n, const float *scale, const float *offset, const float *x, float *out);
/* The state: the normalised features of all keys but codes, in their order. Returns how many; state NULL: counts. */
int mf_layout_state(const struct mf_layout *l, const struct mf_affine *norm, const float *flat, float *state);
int mf_layout_pictures(const struct mf_layout *l); /* how many of the keys are pictures */
/* One observation of the key: its elements, uint8 or float, as streams and files have them, <-> the flat vector. */
void mf_obs_pack(const struct mf_obs *o, const void *elements, float *flat);
void mf_obs_unpack(const struct mf_obs *o, const float *flat, void *elements);
/* Are all numbers of the flat observation finite? */
bool mf_layout_finite(const struct mf_layout *l, const float *flat);
/* First row (or column) of the centered window of `crop` pixels of `size`: (size - crop)/2, halves to even. */
int mf_crop_center(int size, int crop);
void mf_layout_points(struct mf_layout *l, int n); /* give every cloud n points */

#endif
