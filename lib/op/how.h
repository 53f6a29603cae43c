/* how.h - the attributes of operations, mf_call.how, as devices read them in forms of their own.
 *
 * sum: enum mf_act. rows, cols, modulate, gate: int, the first row or column. pool: enum mf_pool. sinusoid: float, the
 * scale. unfold, fold: struct mf_slide. linear, norm, attention: below. The others have none.
 */
#ifndef MF_OP_HOW_H
#define MF_OP_HOW_H

#include "dev/op.h"

struct mf_linear_how {
    enum mf_act act;
    int from;        /* the first column of W that x meets */
    bool transposed; /* W is (x.cols, y.cols), else (y.cols, ..) */
};

enum mf_pool { MF_POOL_MAX, MF_POOL_MEAN };

enum mf_norm {                     /* x^ = .. */
               MF_NORM_LAYER,      /* (x - mean)/sqrt(var + eps) */
               MF_NORM_RMS,        /* x/sqrt(mean of x^2 + eps) */
               MF_NORM_RMS_LEGACY, /* x/sqrt(unbiased var + eps): timm's RmsNorm up to 1.0.12 */
};

struct mf_norm_how {
    enum mf_norm norm;
    int from;          /* the first column of x */
    int heads, blocks; /* of columns, of rows: each normalised by itself */
    float eps;
};

/* Blocks of rows, in which windows of `kernel` rows start every `stride` rows, the first `pad` before the block. */
struct mf_slide {
    int blocks, kernel, stride, pad;
};

/* softmax(scale q k^T) v: q is columns [at[0], at[0] + dim) of its operand, k [at[1], at[1] + dim), v [at[2], at[2] +
 * out); a head takes its share of each. Rows see those of their own block alone. */
struct mf_attend {
    int heads, blocks, dim, out, at[3];
    float scale;
    float drop; /* probability that a weight becomes 0; the others are divided by 1 - drop */
    int layer;  /* dropout's stream: layers draw differently */
};

/* Rows of a norm that have one mean. */
static inline int mf_norm_rows(const struct mf_call *c)
{
    const struct mf_norm_how *how = (const struct mf_norm_how *)c->how;
    return c->y.rows / how->blocks;
}

/* From the affine numbers of a norm's head to those of the next: every head's are the same, or each has its own. */
static inline int mf_norm_step(const struct mf_call *c)
{
    const struct mf_norm_how *how = (const struct mf_norm_how *)c->how;
    int N = c->y.cols / how->heads;
    return c->ldw > N ? N : 0;
}

enum { MF_QUERIES = 16 }; /* an attention's weights lie in so many queries side by side, padded */

/* What an attention keeps: for every block and head (m + 1, n) floats, n queries padded: weights before they are
 * divided by their sum, negative where they were dropped; then one over that sum. */
static inline size_t mf_attention_keeps(int q_rows, int k_rows, int heads, int blocks)
{
    size_t queries = (size_t)((q_rows / blocks + MF_QUERIES - 1) / MF_QUERIES) * MF_QUERIES;
    return (size_t)blocks * (size_t)heads * queries * (size_t)(k_rows / blocks + 1);
}

/* Dropout: the weights (n, stride) of one query that are dropped become negative. part: its block and head. */
void mf_attention_drop(const struct mf_call *c, int sample, int part, int query, int n, float *weight, int stride);

#endif
