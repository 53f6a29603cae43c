/* net.h - a velocity network: one file with only a forward.
 *
 * To add one, write lib/nn/net_NAME.c that defines `mf_net_NAME`; the key
 * policy.network=NAME then finds it. Parameters are named as the published
 * PyTorch state_dicts name them, so that checkpoints load.
 *
 *   R samples  k denoising steps  D = H*A  O flat observation (To*obs_dim)
 */
#ifndef MF_NN_NET_H
#define MF_NN_NET_H

#include "graph/graph.h"

enum { MF_DIMS_MAX = 8 };

struct mf_net_spec { /* what determines a network's shape; stored in the checkpoint */
    const struct mf_net *net;
    int O, D;
    int n_hidden, hidden[MF_DIMS_MAX]; /* trunk: [512, 512, 512] is ResidualMLP [in,512,512,512,out] */
    enum mf_act act;
    int time_dim;
    int n_cond, cond[MF_DIMS_MAX]; /* MLP of the observation, [] = raw */
};

struct mf_net {
    const char *name, *summary;
    bool step_size; /* takes a step size d beside the time */
    /* What depends on the observation (1, O) alone: computed once for all k steps. */
    struct mf_val (*encode)(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val obs);
    /* v (k, D) from x (k, D), time t (k, 1) per sample or shared, step size d like t (MF_NONE unless step_size). */
    struct mf_val (*velocity)(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val code, struct mf_val x,
                              struct mf_val t, struct mf_val d);
    /* What a noise net sees: (k, F). ReinFlow: [time embedding without gradient, observation embedding]. */
    struct mf_val (*feature)(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val code, struct mf_val obs,
                             struct mf_val t, struct mf_val d);
};

extern const struct mf_net *const mf_nets[]; /* ends with NULL; made from the file names */
int mf_net_find(const struct mf_net **net, const char *name, struct mf_err *err); /* MF_EUSAGE lists the names */

/* Critic: ResidualMLP [O, hidden.., 1], Mish (ReinFlow): obs (1, O) -> (1, 1). */
struct mf_val mf_critic(struct mf_graph *g, int n_hidden, const int *hidden, struct mf_val obs);
/* Noise net: MLP [F, hidden.., D], tanh between: feature (k, F) -> (k, D) before mf_noise_std. */
struct mf_val mf_noise_net(struct mf_graph *g, int n_hidden, const int *hidden, int D, struct mf_val feature);

#endif
