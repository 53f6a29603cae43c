/* encoder.h - an encoder of pictures: one file that records the features of an observation's pictures.
 *
 * To add one, write lib/nn/encoder_NAME.c that defines `mf_encoder_NAME`; the key policy.encoder=NAME then finds it. It
 * goes with every network that has no encoder of its own: such a network reads the features, joined with the other
 * observations, as its observation. Parameters have the names of the published PyTorch state_dicts.
 *
 *   To observation steps  S numbers of a step that belong to no picture
 *
 * A map is a value of (n*H*W, C): n pictures row by row, one row per pixel.
 */
#ifndef MF_NN_ENCODER_H
#define MF_NN_ENCODER_H

#include "nn/net.h"

/* The keys of every encoder, beside its own. */
#define MF_ENCODER_SIZES (MF_SIZE(crop) | MF_SIZE(critic_encoder) | MF_SIZE(noise_time))

struct mf_feature_shape { /* the shape of the features */
    int rows;             /* To: of each step; 1: of all steps together */
    int parts;            /* side by side: one of each picture of a step, or 1 of all of them */
    int width;            /* of a part */
    bool whole;           /* they hold the other observations, too: nothing is joined to them */
    bool ahead;           /* they stand before the other observations, else each part in the place of its picture */
};

struct mf_encoder_input {
    const struct mf_net_spec *s;
    struct mf_val steps; /* (To, obs.dim): the observation, its pictures packed */
    bool critic;         /* the critic's own encoder: parameters "critic.*", else the policy's */
    enum mf_group group; /* of its parameters */
};

struct mf_encoder {
    const char *name;
    uint64_t sizes;      /* MF_SIZE(crop) | ..: the keys that it reads */
    float scale, offset; /* of a uint8 channel in a fresh policy: the encoder reads x*scale + offset */
    /* 0, or MF_EUSAGE: the pictures or the sizes do not fit. NULL: they always do. */
    int (*check)(const struct mf_net_spec *s, struct mf_err *err);
    struct mf_feature_shape (*shape)(const struct mf_net_spec *s);
    struct mf_val (*encode)(struct mf_graph *g, const struct mf_encoder_input *in); /* (rows, parts*width) of shape */
};

extern const struct mf_encoder *const mf_encoders[]; /* ends with NULL; made from the file names */
extern const struct mf_encoder mf_encoder_none;
/* MF_EUSAGE lists the names. */
int mf_encoder_find(const struct mf_encoder **encoder, const char *name, struct mf_err *err);

/* ---- for networks ---- */

bool mf_net_reads_pictures(
    const struct mf_net_spec *s); /* the network reads pictures, or their features, through s->encoder */
bool mf_net_has_encoder(const struct mf_net_spec *s); /* and that encoder is not mf_encoder_none */
int mf_net_inputs(const struct mf_net_spec *s); /* columns of mf_share.obs, the observation as the network reads it */
int mf_encoder_check(const struct mf_net_spec *s, struct mf_err *err);
/* The observations of raw that belong to no picture, of all steps: (1, To*S). MF_NONE: there are none. */
struct mf_val mf_net_states(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val raw);
/* Fills features and obs from raw. frozen: the features are detached. */
void mf_encode_pictures(struct mf_graph *g, const struct mf_net_spec *s, bool critic, bool frozen,
                        struct mf_share *share);
/* The pictures as one observation: see mf_net.encoding. *n: keys that it replaces, from the returned one on; -1: none.
 */
int mf_encoder_encoding(const struct mf_net_spec *s, struct mf_obs *of_step, int *n);

/* ---- for encoders ---- */

/* Sides of the pictures as the encoder reads them, after policy.crop; of the first picture. */
struct mf_obs mf_encoder_picture(const struct mf_net_spec *s);
struct mf_val mf_encoder_states(struct mf_graph *g, const struct mf_encoder_input *in); /* (To, S), S > 0 */
int mf_encoder_state_width(const struct mf_net_spec *s);                                /* S */
struct mf_val mf_encoder_map(struct mf_graph *g, const struct mf_encoder_input *in,
                             int key); /* of a picture: To maps */
/* The same of the observation `key` in steps (To, obs.dim), for networks: numbers times scale, plus offset. */
struct mf_val mf_picture_map(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val steps, int key, float scale,
                             float offset);
struct mf_val mf_encoder_stacked(struct mf_graph *g, const struct mf_encoder_input *in); /* To maps, channels of all */
int mf_encoder_one_size(const struct mf_net_spec *s,
                        struct mf_err *err); /* MF_EUSAGE: pictures differ in height or width */

/* Maps as rows of all their numbers, in PyTorch's order (C, H, W): (n, C*H*W). */
struct mf_val mf_encoder_flat(struct mf_graph *g, struct mf_val map, int n);
/* The convolution `prefix`.{weight,bias} of maps, with `out` channels. */
struct mf_val mf_conv(struct mf_graph *g, enum mf_group group, const char *prefix, struct mf_val map,
                      const struct mf_patch *how, int out, enum mf_act act);
/* act(convolution + more), more MF_NONE or maps of the same shape; without a bias unless `bias`. */
struct mf_val mf_conv_onto(struct mf_graph *g, enum mf_group group, const char *prefix, struct mf_val map,
                           const struct mf_patch *how, int out, bool bias, struct mf_val more, enum mf_act act);

#endif
