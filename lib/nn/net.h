/* net.h - a velocity network: one file that records its forward pass.
 *
 * To add one, write lib/nn/net_NAME.c that defines `mf_net_NAME`; the key
 * policy.network=NAME then finds it. It lists the sizes that it reads. A new
 * size is a row of conf/policy.inc; the key, the member of mf_net_spec, and
 * the field of heads and checkpoints follow from that row. Parameters have the
 * names of the published PyTorch state_dicts, so that those checkpoints load.
 *
 *   R samples  k denoising steps  D = H*A  O flat observation (To*obs.dim)
 */
#ifndef MF_NN_NET_H
#define MF_NN_NET_H

#include "base/layout.h"
#include "dev/op.h"
#include "graph/graph.h"
#include "op/ops.h"

enum { MF_DIMS_MAX = 8, MF_LAYERS_MAX = 48 };
#define MF_ENCODING "encoding" /* array obs/encoding of the stream */

enum { /* the sizes that a network may have, in the order of their rows */
#define SIZE(key, ...) MF_SIZE_##key,
#include "conf/policy.inc"
       MF_SIZES
};
#define MF_SIZE(key) ((uint64_t)1 << MF_SIZE_##key) /* MF_SIZE(n_layer): the key policy.n_layer */

enum mf_critic_encoder { MF_CRITIC_SHARED, MF_CRITIC_OWN }; /* of pictures: the policy's, or its own */
enum mf_resnet_head { MF_RESNET_MEAN, MF_RESNET_SPATIAL };  /* of a map: the mean of each channel, or keypoints */
enum mf_value_pool { MF_VALUE_MEAN, MF_VALUE_ATTENTION, MF_VALUE_SCORE }; /* how a critic sums tokens up */

/* Members of a spec from rows of policy.inc. */
#define MF_FIELD_INT(member)    int member;
#define MF_FIELD_FLOAT(member)  float member;
#define MF_FIELD_BOOL(member)   bool member;
#define MF_FIELD_CHOICE(member) enum mf_##member member;
#define MF_FIELD_INTS(member)   int n_##member, member[MF_DIMS_MAX];

struct mf_encoder;

struct mf_net_spec { /* what determines a network's shape; stored in the checkpoint */
    const struct mf_net *net;
    const struct mf_encoder *encoder; /* of pictures (encoder.h) */
    struct mf_layout obs;             /* one of the n_obs_steps */
    int encoded;                      /* floats of the observation MF_ENCODING (mf_net_encoded); 0: none */
    int n_obs_steps, O, D, horizon;
#define SIZE(key, member, learned, type, ...) MF_FIELD_##type(member)
#include "conf/policy.inc"
};

/* Values computed once and used by every denoising step. */
struct mf_share {
    struct mf_val raw;         /* (1, O), of an observation; its pictures packed */
    struct mf_val obs;         /* (1, mf_net_inputs): raw, or the features of its pictures and the other keys */
    struct mf_val embed;       /* (1, F) of the observation, (k, e) of the time; the noise net's inputs */
    struct mf_val features[2]; /* the encoder's outputs; the critic's inputs, too */
    struct mf_val part[2 * MF_LAYERS_MAX]; /* the network's own: a first layer's share, keys and values, modulations */
    float drop;                            /* cloning: the rate of dropout of attention weights */
    struct mf_val key;                     /* (1, 1) per sample: the random bits of its dropout; MF_NONE: no dropout */
};

struct mf_net {
    const char *name;
    uint64_t sizes;       /* MF_SIZE(time_dim) | ..: the keys that it reads */
    uint64_t coded_sizes; /* those that it reads besides with an encoder of pictures */
    bool step_size;       /* its inputs include a step size d */
    bool dropout;         /* supports dropout of attention weights: mf_share's drop and key */
    /* 0, or MF_EUSAGE where the sizes do not make a network. */
    int (*check)(const struct mf_net_spec *s, struct mf_err *err);
    /* The observation's encoder: fills `features`, and may fill `part`. NULL: there is none. */
    void (*encoder)(struct mf_graph *g, const struct mf_net_spec *s, struct mf_share *obs);
    /* The dims of features[0] of one step, and the index of the observation that it replaces: in an `encoded` spec it
     * is the observation MF_ENCODING, and `encoder` copies it. NULL: the features replace no observation. */
    int (*encoding)(const struct mf_net_spec *s, struct mf_obs *of_step);
    /* The observation's part of the velocity: fills embed and part. NULL: `encoder` has filled them. */
    void (*encode)(struct mf_graph *g, const struct mf_net_spec *s, struct mf_share *obs);
    /* The part of the velocity that depends on the time t and the step size d alone (d is MF_NONE unless step_size):
     * (k, 1) each, shared where all samples have one grid. */
    struct mf_share (*time)(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val t, struct mf_val d);
    /* The tokens of the actions, computed from x (k, D) once for the velocity and the noise, which take them in the
     * place of x. NULL: there are none. */
    struct mf_val (*tokens)(struct mf_graph *g, const struct mf_net_spec *s, const struct mf_share *obs,
                            const struct mf_share *time, struct mf_val x);
    /* v (k, D) from x (k, D). */
    struct mf_val (*velocity)(struct mf_graph *g, const struct mf_net_spec *s, const struct mf_share *obs,
                              const struct mf_share *time, struct mf_val x);
    /* The input (k, D) of mf_noise_std, of the tokens. NULL: mf_noise_net over the observation's embedding and the
     * time's. */
    struct mf_val (*noise)(struct mf_graph *g, const struct mf_net_spec *s, int n_hidden, const int *hidden,
                           struct mf_val tokens);
    /* The critic's (1, 1) from the features. NULL: mf_critic over the observation. */
    struct mf_val (*value)(struct mf_graph *g, const struct mf_net_spec *s, int n_hidden, const int *hidden,
                           const struct mf_share *obs);
    /* (1, ..): the input of a latent actor, without a gradient. NULL: mf_net_summary makes one. */
    struct mf_val (*summary)(struct mf_graph *g, const struct mf_net_spec *s, const struct mf_share *obs);
};

extern const struct mf_net *const mf_nets[]; /* ends with NULL; made from the file names */
int mf_net_find(const struct mf_net **net, const char *name, struct mf_err *err); /* MF_EUSAGE lists the names */

/* The features of the observation (1, O), as the velocity and the critic read them. frozen: they are detached. */
struct mf_share mf_net_features(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val obs, bool frozen);
/* x, or the tokens of a network that has them: what its velocity and its noise take. */
struct mf_val mf_net_tokens(struct mf_graph *g, const struct mf_net_spec *s, const struct mf_share *obs,
                            const struct mf_share *time, struct mf_val x);
/* *s over encodings: the encoding MF_ENCODING is the last observation, and replaces the encoder's input. *s itself
 * where there is no encoder, or where the encoding is not smaller than its input. */
struct mf_net_spec mf_net_encoded(const struct mf_net_spec *s);
/* The critic's (1, 1) from the shared values of the observation. Its gradient does not reach the policy's encoder of
 * pictures. */
struct mf_val mf_net_value(struct mf_graph *g, const struct mf_net_spec *s, int n_hidden, const int *hidden,
                           const struct mf_share *obs);

/* The observation in one row, without a gradient: the network's own summary, else the critic's input, of tokens their
 * mean. */
struct mf_val mf_net_summary(struct mf_graph *g, const struct mf_net_spec *s, const struct mf_share *obs);

/* Critic: ResidualMLP [O, hidden.., 1], Mish (ReinFlow): obs (1, O) -> (1, 1). */
struct mf_val mf_critic(struct mf_graph *g, int n_hidden, const int *hidden, struct mf_val obs);
/* The MLP `value_head.mlp.{0,2,..}` with ReLU: x (1, ..) -> (1, 1). */
struct mf_val mf_value_mlp(struct mf_graph *g, int n_hidden, const int *hidden, struct mf_val x);
/* Noise net `prefix`: MLP [e + F, hidden.., D] with tanh between, over the detached time embedding and the
 * observation's: (k, D), the input of mf_noise_std. time MF_NONE: over the rows of obs alone. Registers logvar_min and
 * logvar_max beside its weights. */
#define MF_NOISE_NET "explore_noise_net"
struct mf_val mf_noise_net(struct mf_graph *g, const char *prefix, int n_hidden, const int *hidden, int D,
                           struct mf_val time, struct mf_val obs);

struct mf_latent { /* (1, D) each */
    struct mf_val mean, logstd;
};
/* The actor of DSRL (Wagenmaker et al. 2025, arXiv 2506.15799) over an observation (1, F): an MLP with ReLU and two
 * heads, which give the Gaussian of the initial noise (1, D). */
struct mf_latent mf_latent_actor(struct mf_graph *g, int n_hidden, const int *hidden, int D, struct mf_val obs);

#endif
