/* graph.h - record a computation once; a plan (plan.h) replays it for every tile of samples.
 *
 * A value is, for every sample, a (rows, cols) matrix of floats: rows are the
 * denoising steps or tokens of that sample. A `shared` value is one (rows,
 * cols) matrix for all samples (a time grid, coefficients). Backward is
 * derived: every op knows its own. What no loss depends on, and what depends
 * on no trained parameter, is not differentiated.
 *
 * A row's bits depend on no other row: not on the number of samples, the tile
 * or the thread.
 *
 * Recording cannot fail but for misuse, which is a bug and aborts with the
 * op's name and the shapes.
 */
#ifndef MF_GRAPH_GRAPH_H
#define MF_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "dev/op.h" /* enum mf_act, enum mf_reduce */

/* ---- parameters: named fp32 matrices in one flat array ---- */

enum mf_group {
    MF_GROUP_POLICY,
    MF_GROUP_CRITIC,
    MF_GROUP_NOISE,
    MF_GROUP_ENCODER /* of the observation, where a network sees it through one */,
    MF_GROUP_BUFFER /* saved, never trained */,
    MF_GROUPS
};

enum mf_init { MF_INIT_UNIFORM, MF_INIT_NORMAL, MF_INIT_CONST }; /* U(-a,a); N(0,a); a */

struct mf_param {
    char name[128]; /* "network.mlp_mean.layers.0.weight" */
    int rows, cols; /* a bias is (1, cols) */
    int rank;       /* how a checkpoint shapes it: 1 (cols), 2 (rows, cols), 3 (1, rows, cols) */
    int kernel;     /* of a convolution, whose shape is (rows, cols/kernel, kernel); 0: of none */
    enum mf_group group;
    enum mf_init init;
    float a;
    size_t at; /* offset in value */
};

struct mf_params {
    int n;
    struct mf_param *p;
    size_t size;      /* floats */
    float *value;     /* NULL until alloc; 64-byte aligned */
    uint64_t version; /* changed weights: mf_params_touch */
};

/* Index of the parameter; the existing one when the name is there (shapes must agree). */
int mf_param_add(struct mf_params *ps, const char *name, int rows, int cols, int rank, enum mf_group group,
                 enum mf_init init, float a);
int mf_param_find(const struct mf_params *ps, const char *name); /* -1: none */
/* A convolution's weight, (rows, cols) here and (rows, cols/kernel, kernel) in checkpoints: U(+-a). */
int mf_param_add_kernel(struct mf_params *ps, const char *name, int rows, int cols, int kernel, enum mf_group group,
                        float a);
size_t mf_params_count(const struct mf_params *ps, enum mf_group group);
int mf_params_alloc(struct mf_params *ps, struct mf_err *err); /* zeroed */
void mf_params_fresh(struct mf_params *ps, uint64_t seed);     /* values by init */
void mf_params_touch(struct mf_params *ps);                    /* values were changed: plans look at them anew */
void mf_params_release(struct mf_params *ps);

/* ---- values ---- */

struct mf_graph;
struct mf_val {
    int id; /* 0: none */
};
#define MF_NONE ((struct mf_val){0})

struct mf_graph *mf_graph_new(struct mf_params *ps);
void mf_graph_free(struct mf_graph *g);
struct mf_params *mf_graph_params(const struct mf_graph *g); /* where layers add theirs */
int mf_rows(const struct mf_graph *g, struct mf_val v);
int mf_cols(const struct mf_graph *g, struct mf_val v);
bool mf_is_shared(const struct mf_graph *g, struct mf_val v);

struct mf_val mf_input(struct mf_graph *g, int rows, int cols);  /* fed per sample */
struct mf_val mf_shared(struct mf_graph *g, int rows, int cols); /* set per plan */

/* y = act(x W[:, from : from + x.cols]^T + b + r1 + r2); W (out, in), b (1, out) or -1.
 * r1, r2: MF_NONE, or (n, out) where n divides rows, per sample or shared: each row is spread over rows/n. */
struct mf_val mf_linear(struct mf_graph *g, struct mf_val x, int W, int from, int b, struct mf_val r1, struct mf_val r2,
                        enum mf_act act);
struct mf_val mf_detach(struct mf_graph *g, struct mf_val x); /* the same floats; no gradient passes */
struct mf_val mf_activate(struct mf_graph *g, struct mf_val x, enum mf_act act);
struct mf_val mf_add(struct mf_graph *g, struct mf_val a, struct mf_val b); /* b as r1 above */
struct mf_val mf_concat(struct mf_graph *g, int n, const struct mf_val *x); /* along cols; spread as r1 above */
struct mf_val mf_stack(struct mf_graph *g, int n, const struct mf_val *x);  /* along rows, per sample */
struct mf_val mf_slice_rows(struct mf_graph *g, struct mf_val x, int from, int n);
struct mf_val mf_slice_cols(struct mf_graph *g, struct mf_val x, int from, int n);
struct mf_val mf_reshape(struct mf_graph *g, struct mf_val x, int rows, int cols); /* the same floats */
/* [sin(scale t f), cos(scale t f)], f_i = exp(-i ln(1e4)/(dim/2-1)); t (rows, 1) -> (rows, dim). No gradient. */
struct mf_val mf_sinusoid(struct mf_graph *g, struct mf_val t, float scale, int dim);

/* ---- what transformers add ---- */

struct mf_val mf_param_value(struct mf_graph *g, int W); /* a parameter as a shared value: a learned embedding */
/* The largest, or the mean, of every rows/n rows that follow one another: (n, cols). Of equal ones the first is it. */
struct mf_val mf_pool(struct mf_graph *g, struct mf_val x, int n, enum mf_pool how);
/* Columns [from, from + cols) of x in `heads` heads, each normed by itself: x^ w + b; w and b (1, cols/heads) are
 * every head's, or -1. Ba et al. 2016; Zhang & Sennrich 2019. */
struct mf_val mf_norm(struct mf_graph *g, struct mf_val x, int from, int cols, int heads, enum mf_norm how, int W,
                      int b, float eps);
/* Adaptive layer norm's (Peebles & Xie 2023): x (1 + scale) + shift, and h + gate x. shift and scale are columns
 * [from, from + 2 cols) of m, gate [from, from + cols); m, and h of a gate, spread as r1 above. */
struct mf_val mf_modulate(struct mf_graph *g, struct mf_val x, struct mf_val m, int from);
struct mf_val mf_gate(struct mf_graph *g, struct mf_val h, struct mf_val x, struct mf_val m, int from);

/* softmax(scale q k^T) v, head by head (Vaswani et al. 2017), in `blocks` blocks of rows that see only each other.
 * q is columns [at[0], at[0] + dim) of its operand, k [at[1], at[1] + dim), v [at[2], at[2] + out): packed
 * projections need no slice. q (blocks*n, ..) may be shared; k, v (blocks*m, ..). -> (blocks*n, out).
 * drop > 0: each weight is 0 with that probability and else divided by 1 - drop, as key (1, 1) per sample, the bits
 * of an uint32, and `layer` tell (no gradient into the key). */
struct mf_attend {
    int heads, blocks, dim, out, at[3];
    float scale;
    float drop;
    struct mf_val key; /* MF_NONE: no dropout */
    int layer;
};
struct mf_val mf_attention(struct mf_graph *g, struct mf_val q, struct mf_val k, struct mf_val v,
                           const struct mf_attend *how);

/* ---- what convolutions add: values are `blocks` blocks of T rows (times) that know nothing of each other ---- */

/* Conv1d's operand: row t of a block becomes column c*kernel + j of a row = x[t*stride + j - pad, c], 0 beyond the
 * block, so that mf_linear with a weight (out, in*kernel) is the convolution: (blocks*T', C*kernel),
 * T' = (T + 2 pad - kernel)/stride + 1. */
struct mf_slide {
    int blocks, kernel, stride, pad;
};
struct mf_val mf_unfold(struct mf_graph *g, struct mf_val x, const struct mf_slide *how);
/* Its adjoint, (blocks*T, C*kernel) -> (blocks*T', C), T' = (T-1) stride - 2 pad + kernel: after mf_linear_turned with
 * a weight (in, out*kernel) it is ConvTranspose1d. */
struct mf_val mf_fold(struct mf_graph *g, struct mf_val x, const struct mf_slide *how);
struct mf_val mf_linear_turned(struct mf_graph *g, struct mf_val x, int W); /* x W */
/* Every block and group of columns normed by itself (Wu & He 2018): x^ w + b, w and b (1, cols). */
struct mf_val mf_group_norm(struct mf_graph *g, struct mf_val x, int blocks, int groups, int W, int b, float eps);

/* ---- the flow's own ops; k runs over rows, d over D = H*A cols ---- */

/* mean_kd = coef_k0 x_kd + coef_k1 v_kd, kept within +-limit when limit > 0. coef (rows, 3) per sample. */
struct mf_val mf_flow_mean(struct mf_graph *g, struct mf_val x, struct mf_val v, struct mf_val coef, float limit);
/* std = exp(logvar/2), logvar = lmin + (lmax-lmin)(tanh(u)+1)/2; bounds (1, 2) shared: lmin, lmax. */
struct mf_val mf_noise_std(struct mf_graph *g, struct mf_val u, struct mf_val bounds);
/* x' = mean + s*eps; s = coef_k2, times std (rows, D) where std is given. eps kept within +-clip when clip > 0,
 * x' within +-limit when limit > 0. No gradient (sampling). */
struct mf_val mf_flow_noise(struct mf_graph *g, struct mf_val mean, struct mf_val std, struct mf_val coef,
                            struct mf_val eps, float clip, float limit);
/* Elements -log s - log(2 pi)/2 - ((x'-mean)/s)^2/2, the same s; 0 where s = 0. next = x' (rows, D). */
struct mf_val mf_flow_logprob(struct mf_graph *g, struct mf_val next, struct mf_val mean, struct mf_val std,
                              struct mf_val coef);
/* Rate: sum over (rows, cols) of .5 log(2 pi e) + log std, times scale: (1, 1). */
struct mf_val mf_flow_entropy(struct mf_graph *g, struct mf_val std, float scale);

/* Elements (rows = steps, H*A) to what the ratio is taken of: see enum mf_reduce. first (1, H*A) is the initial noise
 * (no gradient), or MF_NONE. The executed slice is actions [offset, offset + C) of H. */
struct mf_val mf_reduce(struct mf_graph *g, struct mf_val elements, struct mf_val first, enum mf_reduce how, int A,
                        int C, int offset, float scale);

/* ---- losses: (1, 1) per sample, already weighted ---- */

/* sum_e weight_e * max(-adv*ratio, -adv*clip(ratio, 1-eps, 1+eps)), ratio = exp(new - old), e over cols of new.
 * new and old are first kept within +-clamp when clamp > 0 (gradient 0 outside); dual > 0: at most dual*|adv| where
 * adv < 0. old, weight (1, E); adv (1, 1); knobs (1, 4) shared: eps, dual, clamp, 0. weight 0 = masked: never read
 * further. */
struct mf_val mf_ppo_loss(struct mf_graph *g, struct mf_val logp, struct mf_val old, struct mf_val adv,
                          struct mf_val weight, struct mf_val knobs);
/* weight * e^2 (or Huber), the larger of it and that of the clipped value when clip > 0.
 * v, ret, old, weight (1, 1); knobs (1, 4) shared: clip, huber delta, 0, 0. */
struct mf_val mf_value_loss(struct mf_graph *g, struct mf_val v, struct mf_val ret, struct mf_val old,
                            struct mf_val weight, struct mf_val knobs);
/* x times the weight (1, 1) of its sample (no gradient into it); weight 0 = masked: 0, forward and back. */
struct mf_val mf_weigh(struct mf_graph *g, struct mf_val x, struct mf_val weight);
/* weight * mean over (rows, cols) of (a - b)^2; no gradient into b. weight (1, 1). */
struct mf_val mf_mse(struct mf_graph *g, struct mf_val a, struct mf_val b, struct mf_val weight);

/* This value's gradient starts at `scale`. Several losses add up. */
void mf_loss(struct mf_graph *g, struct mf_val v, float scale);

#endif
