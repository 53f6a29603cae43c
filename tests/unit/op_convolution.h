/* op_convolution.h - the operations that convolutions add, as op_lab.h has the others. */
#ifndef MF_OP_CONVOLUTION_H
#define MF_OP_CONVOLUTION_H

#include "op_operands.h"

/* Two blocks of 5 rows, of which windows of 3 leave the last out. */
static struct mf_val op_unfold(struct lab *l)
{
    struct mf_val x = operand(l, 10, 3), y = mf_unfold(l->g, x, &(struct mf_slide){2, 3, 2, 0});
    return mf_concat(l->g, 2, (struct mf_val[]){y, mf_unfold(l->g, x, &(struct mf_slide){2, 2, 3, 0})});
}

static struct mf_val op_fold(struct lab *l)
{
    struct mf_val x = operand(l, 6, 12);
    return mf_add(l->g, mf_fold(l->g, x, &(struct mf_slide){2, 4, 2, 1}),
                  mf_fold(l->g, x, &(struct mf_slide){2, 4, 2, 1}));
}

static struct mf_val op_convolve(struct lab *l)
{
    struct mf_val x = mf_unfold(l->g, operand(l, 10, 3), &(struct mf_slide){2, 5, 1, 2});
    return mf_linear(l->g, x, matrix(l, 7, 15), 0, matrix(l, 1, 7), MF_NONE, MF_NONE, MF_ACT_MISH);
}

/* Of what is wanted and of an input, for which no gradient is. */
static struct mf_val op_convolve_transposed(struct lab *l)
{
    static const struct mf_slide how = {2, 4, 2, 1};
    struct mf_val y = mf_fold(l->g, mf_linear_transposed(l->g, operand(l, 6, 5), matrix(l, 5, 12)), &how);
    return mf_add(l->g, y, mf_fold(l->g, mf_linear_transposed(l->g, input(l, 6, 9), matrix(l, 9, 12)), &how));
}

static struct mf_val op_group_norm(struct lab *l)
{
    return mf_group_norm(l->g, operand(l, 6, 22), 2, 2, matrix(l, 1, 22), matrix(l, 1, 22), 1e-3f);
}

/* bias + scale x: one row of both for three of x. */
static struct mf_val op_film(struct lab *l)
{
    struct mf_val m = operand(l, 2, 22);
    return mf_gate(l->g, mf_slice_cols(l->g, m, 11, 11), operand(l, 6, 11), m, 0);
}

#endif
