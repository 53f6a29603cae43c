/* net.h - a velocity network: one file with only a forward.
 *
 * To add one, write lib/nn/net_NAME.c that defines `mf_net_NAME`; the key
 * policy.network=NAME then finds it. It lists the sizes that it reads: a new
 * one is a row of conf/policy.inc, from which the key, the member of
 * mf_net_spec, and the field of heads and checkpoints follow. Parameters are
 * named as the published PyTorch state_dicts name them, so that checkpoints
 * load.
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

enum mf_value_pool { MF_VALUE_MEAN, MF_VALUE_ATTENTION, MF_VALUE_SCORE }; /* how a critic sums tokens up */

/* Members of a spec from rows of policy.inc. */
#define MF_FIELD_INT(member)    int member;
#define MF_FIELD_FLOAT(member)  float member;
#define MF_FIELD_BOOL(member)   bool member;
#define MF_FIELD_CHOICE(member) enum mf_##member member;
#define MF_FIELD_INTS(member)   int n_##member, member[MF_DIMS_MAX];

struct mf_net_spec { /* what determines a network's shape; stored in the checkpoint */
    const struct mf_net *net;
    struct mf_layout obs; /* of one of the n_obs_steps */
    int encoded;          /* floats of obs, its last, that are an encoding: see mf_net_encoded; 0: none */
    int n_obs_steps, O, D, horizon;
#define SIZE(key, member, learned, type, ...) MF_FIELD_##type(member)
#include "conf/policy.inc"
};

/* What was computed once and is used by every denoising step. */
struct mf_share {
    struct mf_val obs;                     /* (1, O), of an observation */
    struct mf_val embed;                   /* (1, F) of the observation, (k, e) of the time: the noise net sees these */
    struct mf_val seen[2];                 /* what an encoder made of it, which the critic sees too */
    struct mf_val part[2 * MF_LAYERS_MAX]; /* the network's own: a first layer's share, keys and values, modulations */
    float drop;                            /* of attention's weights in cloning, as key (1, 1) per sample tells */
    struct mf_val key;                     /* MF_NONE: no dropout */
};

struct mf_net {
    const char *name;
    uint64_t sizes; /* MF_SIZE(time_dim) | ..: the keys that it reads */
    bool step_size; /* takes a step size d beside the time */
    bool dropout;   /* has attention whose weights cloning may drop: mf_share's drop and key */
    /* 0, or MF_EUSAGE where the sizes do not make a network. */
    int (*check)(const struct mf_net_spec *s, struct mf_err *err);
    /* The observation's encoder: fills `seen`. NULL: there is none. */
    void (*see)(struct mf_graph *g, const struct mf_net_spec *s, struct mf_share *obs);
    /* What seen[0] holds of one step, by its dims, and which observation it can stand for: `see` then takes it as the
     * last one of an `encoded` spec. NULL where nothing can. */
    int (*encoding)(const struct mf_net_spec *s, struct mf_obs *of_step);
    /* What velocities need of the observation: fills embed and parts. */
    void (*encode)(struct mf_graph *g, const struct mf_net_spec *s, struct mf_share *obs);
    /* What depends on the time t alone, and the step size d like t (MF_NONE unless step_size): (k, 1), shared
     * where all samples have one grid. */
    struct mf_share (*time)(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val t, struct mf_val d);
    /* v (k, D) from x (k, D). */
    struct mf_val (*velocity)(struct mf_graph *g, const struct mf_net_spec *s, const struct mf_share *obs,
                              const struct mf_share *time, struct mf_val x);
    /* The critic's (1, 1) over what was seen. NULL: mf_critic over the observation. */
    struct mf_val (*value)(struct mf_graph *g, const struct mf_net_spec *s, int n_hidden, const int *hidden,
                           const struct mf_share *seen);
};

extern const struct mf_net *const mf_nets[]; /* ends with NULL; made from the file names */
int mf_net_find(const struct mf_net **net, const char *name, struct mf_err *err); /* MF_EUSAGE lists the names */

/* What the velocity and the critic see of the observation (1, O); frozen: no gradient reaches the encoder. */
struct mf_share mf_net_see(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val obs, bool frozen);
/* *s over encodings: the observation that the encoder sees is gone, and what the encoder makes of it is the last one,
 * MF_ENCODING. *s itself where there is no encoder, or the encoding is not smaller. */
struct mf_net_spec mf_net_encoded(const struct mf_net_spec *s);
struct mf_val mf_net_value(struct mf_graph *g, const struct mf_net_spec *s, int n_hidden, const int *hidden,
                           const struct mf_share *seen);

/* Critic: ResidualMLP [O, hidden.., 1], Mish (ReinFlow): obs (1, O) -> (1, 1). */
struct mf_val mf_critic(struct mf_graph *g, int n_hidden, const int *hidden, struct mf_val obs);
/* Noise net: MLP [e + F, hidden.., D], tanh between, of the time (no gradient into it) and the observation: (k, D)
 * before mf_noise_std. Registers logvar_min and logvar_max beside its weights. */
struct mf_val mf_noise_net(struct mf_graph *g, int n_hidden, const int *hidden, int D, struct mf_val time,
                           struct mf_val obs);

#endif
