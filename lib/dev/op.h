/* op.h - an operation, and a call of it on a tile of samples: the meaning that every device implements.
 *
 * A tensor of a tile is row-major and dense, sample after sample: row r of sample s is row s*rows + r. A shared tensor
 * has its rows once. A result may be stored head by head instead, where its operation and all its readers allow that
 * (mf_op.heads): mf_offset and mf_row_stride address both forms.
 *
 * "Spread": where an operand has fewer rows than the result, or is shared, each of its rows serves the same number of
 * consecutive rows of the result (a step's modulation over its tokens). The gradient of such a row is the sum over
 * these rows, in order.
 *
 * Backward: y.grad is complete, and the operation may overwrite it. It sets x[i].grad (NULL: not wanted), or adds to it
 * where x[i].add is set, since another reader has written there. It serves the last operand first, since two operands
 * may be one tensor. It adds the gradients of W and b to the lane, but sets those of W where `sets` is set. Where a
 * gradient is zero it reads nothing further: a NaN in a masked row stays in that row.
 */
#ifndef MF_DEV_OP_H
#define MF_DEV_OP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/everywhere.h"

enum mf_act {
    MF_ACT_NONE,
    MF_ACT_RELU,
    MF_ACT_MISH,
    MF_ACT_TANH,
    MF_ACT_SILU,
    MF_ACT_GELU,     /* its tanh form */
    MF_ACT_GELU_ERF, /* x/2 (1 + erf(x/sqrt 2)) */
};

/* The derivative cannot be computed from the result: forward stores it in aux. */
MF_EVERYWHERE static inline bool mf_act_keeps(enum mf_act act)
{
    return act == MF_ACT_MISH || act == MF_ACT_SILU || act == MF_ACT_GELU || act == MF_ACT_GELU_ERF;
}

struct mf_tensor {
    float *data, *grad;
    int rows, cols; /* of one sample */
    int heads;      /* above 1: stored head by head, (heads, rows of the tile, cols/heads) */
    bool shared;    /* one for all samples */
    bool add;       /* backward adds to grad, else sets it */
};

struct mf_call {
    const void *how; /* the operation's attributes, mf_op.attributes bytes */
    struct mf_tensor y;
    struct mf_tensor *x;
    int n_x;
    float *aux;         /* forward stores here for backward; NULL: no backward follows, or it needs nothing */
    float *work;        /* scratch of mf_op.work floats */
    const float *W, *b; /* its parameters, or NULL */
    int ldw;            /* columns of W */
    ptrdiff_t dW, db;   /* where their gradients are in a lane; -1: not trained */
    bool sets;          /* backward sets the gradient of W, all of it: the lane holds old numbers there */
};

struct mf_op {
    const char *name;
    size_t attributes; /* bytes of mf_call.how */
    unsigned flows;    /* bit i: a gradient may flow into x[i]; bit 31: into all from there */
    bool frees_inputs; /* backward reads no operand's values: their memory is free after the last forward reader */

    /* The reference loops, for n samples: what the operation means on every device. */
    void (*forward)(const struct mf_call *c, int n);
    void (*backward)(const struct mf_call *c, int n, float *lane); /* NULL: no gradient flows */
    /* Floats of scratch, by shapes and attributes; backward: of a call that runs backward, too. NULL: none. */
    size_t (*work)(const struct mf_call *c, int n, bool backward);

    /* By shapes and attributes. NULL: 1, false, 0. */
    int (*heads)(const struct mf_call *c, int k); /* in which x[k], or y (k = -1), may be stored head by head */
    bool (*sets)(const struct mf_call *c);        /* backward is able to set the gradient of W, all of it */
    double (*macs)(const struct mf_call *c);      /* multiply-adds of one sample, forward */
    /* Row i of the result, and its share of aux, depend on row i of each operand and on shared rows alone: a device may
     * compute some rows without the others. */
    bool (*by_rows)(const struct mf_call *c);
};

/* Rows of a tensor in a tile of n samples. */
MF_EVERYWHERE static inline int mf_tile_rows(const struct mf_tensor *t, int n)
{
    return t->shared ? t->rows : n * t->rows;
}

/* Floats from a tensor's data to (row, col) of a tile of n samples. */
MF_EVERYWHERE static inline size_t mf_offset(const struct mf_tensor *t, int n, int row, int col)
{
    int width = t->heads > 1 ? t->cols / t->heads : t->cols;
    return ((size_t)(col / width) * (size_t)mf_tile_rows(t, n) + (size_t)row) * (size_t)width + (size_t)(col % width);
}

/* Floats from one row to the next, within a head where it is stored head by head. */
MF_EVERYWHERE static inline int mf_row_stride(const struct mf_tensor *t)
{
    return t->heads > 1 ? t->cols / t->heads : t->cols;
}

/* The row of t that row i of y reads. */
MF_EVERYWHERE static inline int mf_row_of(const struct mf_tensor *t, const struct mf_tensor *y, int i)
{
    return (t->shared ? 0 : i / y->rows * t->rows) + i % y->rows / (y->rows / t->rows);
}

/* The rows of y and t correspond one to one. */
MF_EVERYWHERE static inline bool mf_same_rows(const struct mf_tensor *t, const struct mf_tensor *y)
{
    return t->rows == y->rows && t->shared == y->shared;
}

#endif
