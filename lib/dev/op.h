/* op.h - one call of one operation on a tile of samples: what every device implements.
 *
 * A tensor of a tile is row-major and dense, sample after sample: row r of
 * sample s is row s*rows + r. A shared tensor has its rows once. What a norm
 * hands to an attention may lie head by head instead: both ask mf_place.
 * Where an operand has fewer rows than the result, or is shared, its rows are
 * spread: each over the same number of rows that follow one another (a step's
 * modulation over its tokens). The gradient is then the sum over the rows that
 * read it, in order.
 *
 * Backward: y.grad is complete, and the op may spoil it. Into x[i].grad (NULL:
 * not wanted) it sets, or adds where x[i].add says that another reader was
 * there before; the last operand is served first, since two may be one tensor.
 * Weight gradients add to the lane that is passed in, but for a linear's dW
 * where `sets` says that the lane holds nothing yet. Where a gradient is zero
 * nothing is read further: what a masked row holds (NaN) stays there.
 */
#ifndef MF_DEV_OP_H
#define MF_DEV_OP_H

#include <stdbool.h>
#include <stddef.h>

enum mf_act { MF_ACT_NONE, MF_ACT_RELU, MF_ACT_MISH, MF_ACT_TANH, MF_ACT_SILU, MF_ACT_GELU /* its tanh form */ };

/* The derivative cannot be told from the result: forward keeps it in aux. */
static inline bool mf_act_keeps(enum mf_act act)
{
    return act == MF_ACT_MISH || act == MF_ACT_SILU || act == MF_ACT_GELU;
}

enum mf_norm {                     /* of what a row (or each of its heads) is freed: x^ = .. */
               MF_NORM_LAYER,      /* (x - mean)/sqrt(var + eps) */
               MF_NORM_RMS,        /* x/sqrt(mean of x^2 + eps) */
               MF_NORM_RMS_LEGACY, /* x/sqrt(unbiased var + eps): timm's RmsNorm up to 1.0.12 */
};

enum mf_pool { MF_POOL_MAX, MF_POOL_MEAN };

/* How elements (rows = steps, H*A) become what the ratio is taken of. */
enum mf_reduce {
    MF_REDUCE_ALL,    /* scale * (sum of everything + sum of log N(first; 0, I)): (1, 1) */
    MF_REDUCE_TOKEN,  /* scale * (sum over rows + the same of first when given), executed slice: (1, C*A) */
    MF_REDUCE_ACTION, /* then sum over A: (1, C) */
    MF_REDUCE_CHUNK,  /* then sum over C: (1, 1) */
};

enum mf_op {
    MF_OP_LINEAR,       /* x, then up to two residuals */
    MF_OP_SUM,          /* act(x0 + x1 + ..) */
    MF_OP_CONCAT,       /* along cols */
    MF_OP_STACK,        /* along rows */
    MF_OP_ROWS,         /* rows from, from+1, .. of x */
    MF_OP_COLS,         /* columns from, from+1, .. of x */
    MF_OP_UNFOLD,       /* x: every window of rows becomes one row */
    MF_OP_FOLD,         /* x: every row becomes a window of rows, which add up */
    MF_OP_PARAM,        /* no operand: W itself, shared */
    MF_OP_POOL,         /* x: rows that follow one another become one */
    MF_OP_NORM,         /* x */
    MF_OP_MODULATE,     /* x, m */
    MF_OP_GATE,         /* h, x, m */
    MF_OP_ATTENTION,    /* q, k, v, and maybe the dropout's key */
    MF_OP_WEIGH,        /* x, weight */
    MF_OP_SINUSOID,     /* t */
    MF_OP_FLOW_MEAN,    /* x, v, coef */
    MF_OP_NOISE_STD,    /* u, bounds */
    MF_OP_FLOW_NOISE,   /* mean, eps, coef, and maybe std */
    MF_OP_FLOW_LOGPROB, /* next, mean, coef, and maybe std */
    MF_OP_FLOW_ENTROPY, /* std */
    MF_OP_REDUCE,       /* elements, and maybe first */
    MF_OP_PPO_LOSS,     /* logp, old, adv, weight, knobs */
    MF_OP_VALUE_LOSS,   /* v, ret, old, weight, knobs */
    MF_OP_MSE,          /* a, b, weight */
    MF_OPS
};

struct mf_tensor {
    float *data, *grad;
    int rows, cols; /* of one sample */
    int heads;      /* above 1: head by head, (heads, rows of the tile, cols/heads) */
    bool shared, add;
};

struct mf_crew;
struct mf_products; /* gemm.h: how matrices are multiplied, and weights as that likes them */
struct mf_pack;

struct mf_call {
    struct mf_tensor y;
    struct mf_tensor *x;
    int n_x;
    enum mf_act act;
    enum mf_reduce how;
    enum mf_norm norm;
    enum mf_pool pool;
    int from;                /* first column of W, or first row or column of x, or of what m holds */
    int heads, blocks;       /* of an attention, a window's rows; a norm's, each of its own */
    int window, stride, pad; /* rows that a window sees, between windows, before the first row */
    int dim;                 /* columns of an attention's q and of its k */
    int at[3], layer;        /* first columns of q, k and v; what tells this dropout from others */
    int part, parts;         /* of a result that several workers make; parts 0 or 1: one makes it */
    int A, C, offset;        /* the executed slice */
    float limit, clip;       /* 0: none */
    float scale, eps, drop;
    size_t keep;          /* floats that forward keeps for backward, of one sample (of one shared tensor) */
    float *aux;           /* they; NULL where no backward follows */
    float *work;          /* scratch of mf_kernel.work floats */
    struct mf_crew *crew; /* who may share it with the worker that makes it */
    int worker;

    const float *W, *b; /* linear: (y.cols, ldw), (1, y.cols); norm: (1, ldw), a head's columns or all; or NULL */
    int ldw;
    bool turned;      /* linear: W is (x.cols, ldw) */
    ptrdiff_t dW, db; /* where their gradients lie in a lane; -1: not trained */
    bool sets;        /* a linear's dW, all of it */
    const struct mf_products *products;
    const struct mf_pack *pack, *pack_back; /* W for x -> y, and for y.grad -> x.grad */
};

struct mf_kernel {
    const char *name;
    void (*forward)(const struct mf_call *c, int n);
    void (*backward)(const struct mf_call *c, int n, float *lane); /* NULL: no gradient flows */
    size_t (*work)(const struct mf_call *c, int n, bool backward); /* floats; NULL: none */
    bool divides;                                                  /* forward looks at part */
};

/* What a part has of n things. */
static inline void mf_part_of(int part, int parts, int n, int *from, int *to)
{
    *from = parts ? (int)((long)n * part / parts) : 0;
    *to = parts ? (int)((long)n * (part + 1) / parts) : n;
}

enum { MF_QUERIES = 16 }; /* an attention's weights lie in so many queries side by side, padded */

/* What an attention keeps: for every block and head (m + 1, n) floats, n queries padded: weights before they are
 * divided by their sum, negative where they were dropped; then one over that sum. */
static inline size_t mf_attention_keeps(int q_rows, int k_rows, int heads, int blocks)
{
    size_t queries = (size_t)((q_rows / blocks + MF_QUERIES - 1) / MF_QUERIES) * MF_QUERIES;
    return (size_t)blocks * (size_t)heads * queries * (size_t)(k_rows / blocks + 1);
}

/* Rows of a tensor in a tile of n samples. */
static inline int mf_tile_rows(const struct mf_tensor *t, int n)
{
    return t->shared ? t->rows : n * t->rows;
}

/* Where column col of a tile's row lies, and how far the next row's does. */
static inline size_t mf_place(const struct mf_tensor *t, int n, int row, int col)
{
    int width = t->heads > 1 ? t->cols / t->heads : t->cols;
    return ((size_t)(col / width) * (size_t)mf_tile_rows(t, n) + (size_t)row) * (size_t)width + (size_t)(col % width);
}

static inline int mf_apart(const struct mf_tensor *t)
{
    return t->heads > 1 ? t->cols / t->heads : t->cols;
}

/* The row of t that row i of y reads. */
static inline int mf_row_of(const struct mf_tensor *t, const struct mf_tensor *y, int i)
{
    return (t->shared ? 0 : i / y->rows * t->rows) + i % y->rows / (y->rows / t->rows);
}

/* A norm's rows that have one mean. */
static inline int mf_norm_rows(const struct mf_call *c)
{
    return c->y.rows / c->blocks;
}

/* From the affine numbers of a norm's head to those of the next: every head's are the same, or each has its own. */
static inline int mf_norm_step(const struct mf_call *c)
{
    int N = c->y.cols / c->heads;
    return c->ldw > N ? N : 0;
}

/* y's rows are t's rows, one to one. */
static inline bool mf_same_rows(const struct mf_tensor *t, const struct mf_tensor *y)
{
    return t->rows == y->rows && t->shared == y->shared;
}

#endif
