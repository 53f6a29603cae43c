/* pi05.h - the parts of the vision-language-action network pi0.5 (Black et al., 2025): the vision tower SigLIP
 * (Zhai et al., 2023), and the layers of Gemma, which the language model and the action expert share. Parameters have
 * the names of the published checkpoints.
 */
#ifndef MF_NN_PI05_H
#define MF_NN_PI05_H

#include "nn/net.h"

#define MF_PI05_SIZES                                                                                                  \
    (MF_SIZE(n_layer) | MF_SIZE(n_head) | MF_SIZE(n_emb) | MF_SIZE(mlp_dim) | MF_SIZE(head_dim) |                      \
     MF_SIZE(vocabulary) | MF_SIZE(action_width) | MF_SIZE(expert_width) | MF_SIZE(expert_mlp) |                       \
     MF_SIZE(encoder_width) | MF_SIZE(encoder_heads) | MF_SIZE(encoder_layers) | MF_SIZE(encoder_mlp) |                \
     MF_SIZE(patch_size))

/* The parameter `prefix`.weight without a bias, (out, in): x -> act(x W^T + residual). residual: or MF_NONE. */
struct mf_val mf_pi05_linear(struct mf_graph *g, enum mf_group group, const char *prefix, struct mf_val x, int out,
                             struct mf_val residual, enum mf_act act);

/* 0, or MF_EUSAGE: the pictures do not divide into patches, or differ in size. */
int mf_pi05_vision_check(const struct mf_net_spec *s, struct mf_err *err);
int mf_pi05_patches(const struct mf_net_spec *s); /* of a picture */
/* All pictures of the observation raw (1, O), in the order of its keys: (I*patches, n_emb), in the language model's
 * space. mask (I*patches, 1): 0 for those of pictures that are not there (mf_only); or MF_NONE. */
struct mf_val mf_pi05_vision(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val raw, struct mf_val mask);

/* A stack of Gemma's layers (Gemma Team, 2024). */
struct mf_gemma {
    const struct mf_net_spec *s;
    const char *root; /* "..language_model." */
    enum mf_group group;
    int width, mlp;
    struct mf_val waves; /* of the positions of its tokens */
};

/* The modulation of a norm by a condition (k, ..): (k, 3 width), scale, shift and gate (Peebles & Xie, 2023). `name` is
 * below the root. */
struct mf_val mf_gemma_modulation(struct mf_graph *g, const struct mf_gemma *m, const char *name, struct mf_val c);
/* The RMS norm `name` of h; m: its modulation, or MF_NONE, then by the weights of that name. */
struct mf_val mf_gemma_norm(struct mf_graph *g, const struct mf_gemma *a, const char *name, struct mf_val h,
                            struct mf_val m);
/* Keys after their rotation, and values, of n, the norm before the attention of layer i: (tokens, head_dim). */
void mf_gemma_keys(struct mf_graph *g, const struct mf_gemma *a, int i, struct mf_val n, struct mf_val *k,
                   struct mf_val *v);
/* Layer i: h (tokens, width) -> the same. n: the norm of h before the attention. blocks: of tokens that attend to each
 * other and to the keys of all. m1, m2: modulations of its two norms, or MF_NONE. */
struct mf_val mf_gemma_layer(struct mf_graph *g, const struct mf_gemma *a, int i, struct mf_val h, struct mf_val n,
                             const struct mf_keys *keys, int blocks, struct mf_val m1, struct mf_val m2);

/* The language model's output, (S, n_emb), of an observation's share. Rows of masked slots have no meaning. */
struct mf_val mf_pi05_output(struct mf_graph *g, const struct mf_net_spec *s, const struct mf_share *obs);
/* Its mean over the slots that are there, (1, n_emb): what critics read. No gradient passes. */
struct mf_val mf_pi05_mean(struct mf_graph *g, const struct mf_net_spec *s, const struct mf_share *obs);

#endif
