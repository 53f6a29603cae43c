/* ops.h - the operations of networks: functions that record them. An operation is one file, op_NAME.c: its attributes
 * (how.h), shapes, reference loops, and its table for the engine (struct mf_op).
 *
 * "Spread": an operand of n rows, where n divides the rows of the result, or a shared one: each of its rows serves
 * rows/n consecutive rows of the result.
 */
#ifndef MF_OP_OPS_H
#define MF_OP_OPS_H

#include "graph/graph.h"
#include "op/how.h"

struct mf_obs;

/* y = act(x W[:, from : from + x.cols]^T + b + r1 + r2); W (out, in), b (1, out) or -1.
 * r1, r2: MF_NONE, or (.., out), spread. */
struct mf_val mf_linear(struct mf_graph *g, struct mf_val x, int W, int from, int b, struct mf_val r1, struct mf_val r2,
                        enum mf_act act);
struct mf_val mf_linear_transposed(struct mf_graph *g, struct mf_val x, int W); /* x W */
struct mf_val mf_param_value(struct mf_graph *g, int W); /* a parameter as a shared value: a learned embedding */

/* act(x0 + x1 + ..), each spread or MF_NONE; the two after it are the same. */
struct mf_val mf_sum(struct mf_graph *g, int n, const struct mf_val *x, enum mf_act act);
struct mf_val mf_activate(struct mf_graph *g, struct mf_val x, enum mf_act act);
struct mf_val mf_add(struct mf_graph *g, struct mf_val a, struct mf_val b);

struct mf_val mf_concat(struct mf_graph *g, int n, const struct mf_val *x); /* along cols; spread */
struct mf_val mf_stack(struct mf_graph *g, int n, const struct mf_val *x);  /* along rows, per sample */
struct mf_val mf_slice_rows(struct mf_graph *g, struct mf_val x, int from, int n);
struct mf_val mf_slice_cols(struct mf_graph *g, struct mf_val x, int from, int n);
/* The largest, or the mean, of every rows/n consecutive rows: (n, cols). Of equal ones the first gets the gradient. */
struct mf_val mf_pool(struct mf_graph *g, struct mf_val x, int n, enum mf_pool how);
/* [sin(scale t f), cos(scale t f)], f_i = exp(-i ln(1e4)/(dim/2-1)); t (rows, 1) -> (rows, dim). No gradient. */
struct mf_val mf_sinusoid(struct mf_graph *g, struct mf_val t, float scale, int dim);
/* The same with f_i = first ratio^i and angles in double: [sin(t f), cos(t f)]. */
struct mf_val mf_waves(struct mf_graph *g, struct mf_val t, double first, double ratio, int dim);
/* Rotary position embedding (Su et al. 2021): of each head, halves (x1, x2) become (x1 cos - x2 sin, x2 cos + x1 sin).
 * waves (n, cols/heads): [sin, cos] of each position; row i of x is at position i mod n. */
struct mf_val mf_rope(struct mf_graph *g, struct mf_val x, struct mf_val waves, int heads);
/* Rows of the parameter W (V, N) times `scale`, by their numbers: index (rows, 1) -> (rows, N). A row of zeros, without
 * a gradient, where the number is not within 0..V-1. */
struct mf_val mf_lookup(struct mf_graph *g, struct mf_val index, int W, float scale);
/* 1 where x (m, 1) is above the bound, else 0, each for n/m consecutive rows: (n, 1). No gradient. */
struct mf_val mf_above(struct mf_graph *g, struct mf_val x, float bound, int n);
/* Places of the rows whose mask (m, 1) is 1: how many there are up to each, itself included, less 1; `more` rows behind
 * count on. (m + more, 1). No gradient. */
struct mf_val mf_places(struct mf_graph *g, struct mf_val mask, int more);
/* x y, elementwise. */
struct mf_val mf_product(struct mf_graph *g, struct mf_val x, struct mf_val y);

/* x^ w + b of columns [from, from + cols) of x, statistics over each of `heads` heads; w and b (1, cols/heads), the
 * same for all heads, or -1. Ba et al. 2016; Zhang & Sennrich 2019. */
struct mf_val mf_norm(struct mf_graph *g, struct mf_val x, int from, int cols, int heads, enum mf_norm norm, int W,
                      int b, float eps);
/* x^ w + b, statistics over each block of rows and group of columns (Wu & He 2018); w and b (1, cols). */
struct mf_val mf_group_norm(struct mf_graph *g, struct mf_val x, int blocks, int groups, int W, int b, float eps);
/* Adaptive layer norm's (Peebles & Xie 2023): x (1 + scale) + shift, and h + gate x. shift and scale are columns
 * [from, from + 2 cols) of m, gate [from, from + cols); m, and h of a gate, are spread. */
struct mf_val mf_modulate(struct mf_graph *g, struct mf_val x, struct mf_val m, int from);
struct mf_val mf_gate(struct mf_graph *g, struct mf_val h, struct mf_val x, struct mf_val m, int from);
/* Head by head (Vaswani et al. 2017), in blocks of rows: a query attends to the keys of its own block. Packed
 * projections need no slice.
 * q (blocks*n, ..) may be shared; k, v (blocks*m, ..) -> (blocks*n, out).
 * key: of the dropout, (1, 1) per sample, the bits of an uint32 (no gradient into it); MF_NONE: no dropout. */
struct mf_val mf_attention(struct mf_graph *g, struct mf_val q, struct mf_val k, struct mf_val v, struct mf_val key,
                           const struct mf_attend *how);
/* Attention of queries to keys and values of all blocks (m, ..), which may be masked, and to those of their own block
 * behind them: so several blocks read one memory. A query without any key has the result 0. */
struct mf_keys {
    struct mf_val k, v, mask; /* mask (m, 1): 1 or 0 (no gradient into it); MF_NONE: all are keys */
    struct mf_val own_k,
        own_v; /* (blocks*r, ..), from their first column; MF_NONE: none, and then k, v are by blocks */
};
struct mf_val mf_attention_to(struct mf_graph *g, struct mf_val q, const struct mf_keys *keys,
                              const struct mf_attend *how);

/* Conv1d's operand: row t of a block becomes column c*kernel + j of a row = x[t*stride + j - pad, c], 0 beyond the
 * block, so that mf_linear with a weight (out, in*kernel) is the convolution: (blocks*T', C*kernel),
 * T' = (T + 2 pad - kernel)/stride + 1. */
struct mf_val mf_unfold(struct mf_graph *g, struct mf_val x, const struct mf_slide *how);
/* Its adjoint, (blocks*T, C*kernel) -> (blocks*T', C), T' = (T-1) stride - 2 pad + kernel: after mf_linear_transposed
 * with a weight (in, out*kernel) it is ConvTranspose1d. */
struct mf_val mf_fold(struct mf_graph *g, struct mf_val x, const struct mf_slide *how);

/* A picture of flat observations x (rows, ..), as the engine takes it: value*scale[c] + offset[c] of its window of
 * crop x crop pixels (0: all of it), whose first is at round((size - crop)/2), halves to even. The picture o, (H, W,
 * C), begins at column `from`: as floats, or as bytes, four to a float's place. scale, offset: parameters (1, C).
 * (rows*h*w, C): a row is a pixel. No gradient. */
struct mf_val mf_picture(struct mf_graph *g, struct mf_val x, int from, const struct mf_obs *o, int crop, int scale,
                         int offset);
/* Conv2d's operand: a row has the pixels of a window, row by row, so that mf_linear with a weight (out, kh*kw*C) is the
 * convolution: maps (n*H*W, C) -> (n*H'*W', kh*kw*C), H' = (H + 2 pad - kh)/stride + 1; 0 beyond a map. */
struct mf_val mf_im2col(struct mf_graph *g, struct mf_val x, const struct mf_patch *how);
/* The largest of each window and channel: (n*H*W, C) -> (n*H'*W', C). Of equal ones the first gets the gradient. */
struct mf_val mf_max_pool2d(struct mf_graph *g, struct mf_val x, const struct mf_patch *how);

/* Of each block of rows: its transpose, (blocks*R, C) -> (blocks*C, R). */
struct mf_val mf_transpose(struct mf_graph *g, struct mf_val x, int blocks);
/* Sums of each block's rows, weighed by W (R, N): (blocks*R, N) -> (blocks, N). */
struct mf_val mf_blend(struct mf_graph *g, struct mf_val x, int W);

/* x times the weight (1, 1) of its sample (no gradient into it); weight 0 = masked: 0, forward and back. */
struct mf_val mf_weigh(struct mf_graph *g, struct mf_val x, struct mf_val weight);
/* weight * mean over (rows, cols) of (a - b)^2; no gradient into b. weight (1, 1). */
struct mf_val mf_mse(struct mf_graph *g, struct mf_val a, struct mf_val b, struct mf_val weight);

#endif
