/* how.h - the attributes of operations, mf_call.how: devices read them for their own kernels.
 *
 * sum: enum mf_act. rows, cols, modulate, gate: int, the first row or column. pool: enum mf_pool. above: float, the
 * bound. unfold, fold: struct mf_slide. im2col, max_pool2d: struct mf_patch. linear, norm, attention, picture,
 * sinusoid, lookup: below. The others have none.
 */
#ifndef MF_OP_HOW_H
#define MF_OP_HOW_H

#include "base/rng.h"
#include "dev/op.h"

struct mf_linear_how {
    enum mf_act act;
    int from;        /* x is multiplied by columns [from, from + x.cols) of W */
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
    int from;        /* the first column of x */
    int heads, rows; /* groups of columns; consecutive rows: statistics are over one group of so many rows */
    float eps;
};

/* Blocks of rows, in which windows of `kernel` rows start every `stride` rows, the first `pad` before the block. */
struct mf_slide {
    int blocks, kernel, stride, pad;
};

/* Windows of kh x kw pixels of maps of H x W, one map after the other, each row by row. In both directions they start
 * every `stride` pixels, the first `pad` before the map. */
struct mf_patch {
    int H, W, kh, kw, stride, pad;
};

/* Windows of a map from its top to its bottom, and from left to right. */
MF_EVERYWHERE static inline int mf_patch_down(const struct mf_patch *p)
{
    return (p->H + 2 * p->pad - p->kh) / p->stride + 1;
}

MF_EVERYWHERE static inline int mf_patch_across(const struct mf_patch *p)
{
    return (p->W + 2 * p->pad - p->kw) / p->stride + 1;
}

/* Maps of so many rows in all divide into windows, none of which is beyond its map. */
static inline bool mf_patch_fits(const struct mf_patch *p, int rows)
{
    bool size = p->H > 0 && p->W > 0 && p->kh > 0 && p->kw > 0 && p->stride > 0;
    return size && rows % (p->H * p->W) == 0 && p->pad >= 0 && p->pad < p->kh && p->pad < p->kw &&
           p->H + 2 * p->pad >= p->kh && p->W + 2 * p->pad >= p->kw;
}

/* The row of all maps that is pixel `tap`, counted row by row, of window i; -1: beyond the map. */
static inline int mf_patch_pixel(const struct mf_patch *p, int i, int tap)
{
    int across = mf_patch_across(p), of_map = mf_patch_down(p) * across, map = i / of_map, at = i % of_map;
    int top = at / across * p->stride - p->pad + tap / p->kw, left = at % across * p->stride - p->pad + tap % p->kw;
    return top < 0 || left < 0 || top >= p->H || left >= p->W ? -1 : (map * p->H + top) * p->W + left;
}

/* The picture of a row of observations: its numbers (H, W, C), of which the window (h, w) from (top, left) is taken. */
struct mf_picture_how {
    int from;   /* its first column */
    bool bytes; /* else floats */
    int W, C, top, left, h, w;
};

/* Numbers from the first of the picture to the first of the window's row. */
MF_EVERYWHERE static inline int mf_picture_at(const struct mf_picture_how *p, int row)
{
    return ((p->top + row) * p->W + p->left) * p->C;
}

/* Number i of the picture that begins at x. */
MF_EVERYWHERE static inline float mf_picture_number(const float *x, bool bytes, int i)
{
    return bytes ? (float)((const unsigned char *)x)[i] : x[i];
}

struct mf_lookup_how {
    float scale;
    int rows; /* of the parameter */
};

enum mf_waves_of {                  /* the angles of a time t, j = 0..dim/2-1 */
                   MF_WAVE_FALLING, /* scale t exp(-j ln(1e4)/(dim/2-1)), in float */
                   MF_WAVE_POWERS,  /* t first ratio^j, in double: large angles keep their digits */
};

struct mf_sinusoid_how {
    enum mf_waves_of wave;
    float scale;
    double first, ratio;
};

/* softmax(scale q k^T) v: q is columns [at[0], at[0] + dim) of its operand, k [at[1], at[1] + dim), v [at[2], at[2] +
 * out); a head takes its share of each. Rows attend to those of their own block alone. */
struct mf_attend {
    int heads, blocks, dim, out, at[3];
    int groups;  /* of heads that share keys and values, whose columns are fewer then; 0: each head has its own */
    bool own;    /* x[1], x[2] are keys and values of all blocks, and x[3], x[4] those of each block, behind them */
    bool masked; /* the next operand is 1 where a row of x[1] is a key, else 0 */
    float scale;
    float drop; /* probability that a weight becomes 0; the others are divided by 1 - drop */
    int layer;  /* dropout's stream: layers draw differently */
};

/* Rows of a block of a norm. */
static inline int mf_norm_rows(const struct mf_call *c)
{
    const struct mf_norm_how *how = (const struct mf_norm_how *)c->how;
    return how->rows;
}

/* Floats from the weights and biases of one head of a norm to those of the next; 0 where all heads have the same. */
static inline int mf_norm_step(const struct mf_call *c)
{
    const struct mf_norm_how *how = (const struct mf_norm_how *)c->how;
    int N = c->y.cols / how->heads;
    return c->ldw > N ? N : 0;
}

enum { MF_QUERIES = 16 }; /* the weights of an attention are stored by groups of so many queries, padded */

/* Floats of an attention's aux: (m + 1, n) for every block and head, of m keys and n queries (padded). The weights
 * before they are divided by their sum, negative where dropped; then 1 over that sum. */
static inline size_t mf_attention_keeps(int queries, int keys)
{
    size_t padded = (size_t)((queries + MF_QUERIES - 1) / MF_QUERIES) * MF_QUERIES;
    return padded * (size_t)(keys + 1);
}

/* Groups of heads, each with keys and values of its own. */
MF_EVERYWHERE static inline int mf_attention_groups(const struct mf_attend *how)
{
    return how->groups ? how->groups : how->heads;
}

/* Keys of a block: of operand x[1], and of x[3] behind them. */
static inline int mf_attention_keys(const struct mf_call *c, int own)
{
    const struct mf_attend *how = (const struct mf_attend *)c->how;
    if (own)
        return how->own ? c->x[3].rows / how->blocks : 0;
    return how->own ? c->x[1].rows : c->x[1].rows / how->blocks;
}

/* The mask of the keys of x[1], and the key of dropout: operands, or NULL. */
static inline const struct mf_tensor *mf_attention_mask(const struct mf_call *c)
{
    const struct mf_attend *how = (const struct mf_attend *)c->how;
    return how->masked ? &c->x[how->own ? 5 : 3] : (const struct mf_tensor *)0;
}

static inline const struct mf_tensor *mf_attention_key(const struct mf_call *c)
{
    const struct mf_attend *how = (const struct mf_attend *)c->how;
    return how->drop > 0.0f ? &c->x[c->n_x - 1] : (const struct mf_tensor *)0;
}

/* Dropout's random numbers for a query, one for each key in order: below `drop`, the weight becomes 0. key: the bits of
 * that operand. part: block*heads + head. */
MF_EVERYWHERE static inline struct mf_rng mf_attention_draws(const struct mf_attend *how, uint32_t key, int part,
                                                             int query)
{
    return mf_rng_at(key, MF_RNG_DROPOUT, (uint32_t)how->layer, (uint32_t)part, (uint32_t)query);
}

/* Makes dropped weights of one query negative; weight: n of them, `stride` floats apart. */
void mf_attention_drop(const struct mf_call *c, int sample, int part, int query, int n, float *weight, int stride);

#endif
