/* mlp.h - layers that several networks share. Parameters have the names of PyTorch's state_dicts.
 *
 * Linear layers are initialised as in PyTorch, weight and bias U(+-1/sqrt(in)), unless stated.
 */
#ifndef MF_NN_MLP_H
#define MF_NN_MLP_H

#include "dev/op.h"
#include "nn/net.h"

#define MF_MLP_SIZES (MF_SIZE(hidden) | MF_SIZE(activation) | MF_SIZE(time_dim) | MF_SIZE(cond_hidden))

struct mf_layer { /* a Linear: parameter indices */
    int W, b;
};

/* The layer `prefix`.{weight,bias}: (out, in), (out). */
struct mf_layer mf_layer(struct mf_graph *g, enum mf_group group, const char *prefix, int in, int out);
/* The same, with an orthogonal weight times gain and a bias of 0 at first. */
struct mf_layer mf_layer_ortho(struct mf_graph *g, enum mf_group group, const char *prefix, int in, int out,
                               float gain);
struct mf_val mf_layer_apply(struct mf_graph *g, struct mf_layer l, struct mf_val x, enum mf_act act);

/* `prefix`.moduleList.{i}.linear_1: x -> dims[0] -> .. -> dims[n-1], act between, none at the end. */
struct mf_val mf_mlp(struct mf_graph *g, enum mf_group group, const char *prefix, int n, const int *dims,
                     enum mf_act act, struct mf_val x);

/* The first layer of a ResidualMLP, `prefix`.layers.0. */
struct mf_layer mf_residual_first(struct mf_graph *g, enum mf_group group, const char *prefix, int in, int hidden);
/* The rest of it, y the first layer's output: y += l2(act(l1(act(y)))) for every two further hidden layers, then a
 * Linear to `out`. */
struct mf_val mf_residual(struct mf_graph *g, enum mf_group group, const char *prefix, int n_hidden, const int *hidden,
                          int out, enum mf_act act, struct mf_val y);
/* A velocity by both, where inputs are not concatenated: each has been multiplied by its own columns of the first
 * layer, those of x are W's first, and obs and time keep their products in part[0]. */
struct mf_val mf_residual_velocity(struct mf_graph *g, const struct mf_net_spec *s, const char *prefix, int W,
                                   const struct mf_share *obs, const struct mf_share *time, struct mf_val x);
/* The condition of ReinFlow's networks: the observation, or the MLP `prefix` over it where cond_hidden has layers. */
int mf_condition_width(const struct mf_net_spec *s);
struct mf_val mf_condition(struct mf_graph *g, const struct mf_net_spec *s, const char *prefix, struct mf_val obs);

/* 0, or MF_EUSAGE: time_dim is odd or below 4. */
int mf_sinusoid_check(int time_dim, struct mf_err *err);
/* 0, or MF_EUSAGE: a ResidualMLP needs an odd number of hidden layers of one width. */
int mf_residual_check(const char *what, int n_hidden, const int *hidden, struct mf_err *err);

#endif
