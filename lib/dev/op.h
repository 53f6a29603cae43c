/* op.h - what an operation is, and one call of it on a tile of samples: what every device implements.
 *
 * A tensor of a tile is row-major and dense, sample after sample: row r of
 * sample s is row s*rows + r. A shared tensor has its rows once. A result may
 * be stored head by head instead, where its maker and all its readers allow
 * that (mf_op.heads): they address it by mf_place.
 * Where an operand has fewer rows than the result, or is shared, its rows are
 * spread: each over the same number of rows that follow one another (a step's
 * modulation over its tokens). The gradient is then the sum over the rows that
 * read it, in order.
 *
 * Backward: y.grad is complete, and the op may spoil it. Into x[i].grad (NULL:
 * not wanted) it sets, or adds where x[i].add says that another reader wrote
 * before; the last operand is served first, since two may be one tensor.
 * Weight gradients add to the lane that is passed in, but for W's where `sets`
 * says that the lane holds nothing yet. Where a gradient is zero nothing is
 * read further: what a masked row holds (NaN) stays there.
 */
#ifndef MF_DEV_OP_H
#define MF_DEV_OP_H

#include <stdbool.h>
#include <stddef.h>

enum mf_act { MF_ACT_NONE, MF_ACT_RELU, MF_ACT_MISH, MF_ACT_TANH, MF_ACT_SILU, MF_ACT_GELU /* its tanh form */ };

/* The derivative does not follow from the result: forward keeps it in aux. */
static inline bool mf_act_keeps(enum mf_act act)
{
    return act == MF_ACT_MISH || act == MF_ACT_SILU || act == MF_ACT_GELU;
}

struct mf_tensor {
    float *data, *grad;
    int rows, cols; /* of one sample */
    int heads;      /* above 1: head by head, (heads, rows of the tile, cols/heads) */
    bool shared, add;
};

struct mf_call {
    const void *how; /* the operation's attributes, mf_op.attributes bytes */
    struct mf_tensor y;
    struct mf_tensor *x;
    int n_x;
    float *aux;         /* what forward keeps for backward; NULL where no backward follows */
    float *work;        /* scratch of mf_op.work floats */
    const float *W, *b; /* its parameters, or NULL */
    int ldw;            /* columns of W */
    ptrdiff_t dW, db;   /* where their gradients are in a lane; -1: not trained */
    bool sets;          /* the gradient of W, all of it: the lane holds nothing yet */
};

struct mf_op {
    const char *name;
    size_t attributes; /* bytes of mf_call.how */
    unsigned flows;    /* bit i: a gradient may flow into x[i]; bit 31: into all from there */
    bool frees_inputs; /* backward reads no operand's values: their memory is free after the last forward reader */

    /* The reference loops, for n samples: what the operation means on every device. */
    void (*forward)(const struct mf_call *c, int n);
    void (*backward)(const struct mf_call *c, int n, float *lane); /* NULL: no gradient flows */
    size_t (*work)(const struct mf_call *c, int n, bool backward); /* floats of scratch; NULL: none */

    /* Asked of a call that has attributes and shapes alone. NULL: 1, false, 0. */
    int (*heads)(const struct mf_call *c, int k); /* that x[k], or y (k = -1), may be stored in, head by head */
    bool (*sets)(const struct mf_call *c);        /* backward can set the gradient of W, all of it */
    double (*macs)(const struct mf_call *c);      /* multiply-adds of one sample, forward */
};

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

/* y's rows are t's rows, one to one. */
static inline bool mf_same_rows(const struct mf_tensor *t, const struct mf_tensor *y)
{
    return t->rows == y->rows && t->shared == y->shared;
}

#endif
