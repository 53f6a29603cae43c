/* op_operands.h - a graph of one operation, and inputs for its operands. */
#ifndef MF_OP_OPERANDS_H
#define MF_OP_OPERANDS_H

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "graph/plan.h"
#include "op/ops.h"
#include "tap.h"

enum { S = 256, FEW = 5, R = 3, U = 4 }; /* samples, fewer in some tests; rows and columns of the input of an operand */

/* Each operand is the output of a linear layer, so that the gradient of its weights tests the gradient of the operand.
 */
struct lab {
    struct mf_params ps;
    struct mf_graph *g;
    struct mf_plan *plan;
    struct mf_val loss, y;
    float weight[S]; /* of each sample's loss */
    int n_feeds, n_sets;
    struct mf_feed feed[16];
    struct mf_val set[8];
    float *set_data[8];
    struct mf_rng rng;
};

static float *draw(struct lab *l, size_t n)
{
    float *x = calloc(n, sizeof *x);
    mf_rng_normal(&l->rng, x, n);
    return x;
}

static struct mf_val input(struct lab *l, int rows, int cols)
{
    struct mf_val v = mf_input(l->g, rows, cols);
    l->feed[l->n_feeds++] = (struct mf_feed){v, draw(l, (size_t)(S * rows * cols)), (size_t)(rows * cols), false};
    return v;
}

static struct mf_val input_of(struct lab *l, int rows, int cols, float a, float b) /* a + b |x| */
{
    struct mf_val v = input(l, rows, cols);
    float *x = (float *)(uintptr_t)l->feed[l->n_feeds - 1].base;
    for (int i = 0; i < S * rows * cols; i++)
        x[i] = a + b * fabsf(x[i]);
    return v;
}

static struct mf_val set(struct lab *l, int rows, int cols, const float *data)
{
    l->set[l->n_sets] = mf_shared(l->g, rows, cols);
    l->set_data[l->n_sets] = draw(l, (size_t)(rows * cols));
    if (data)
        memcpy(l->set_data[l->n_sets], data, sizeof(float) * (size_t)(rows * cols));
    return l->set[l->n_sets++];
}

static int matrix(struct lab *l, int rows, int cols)
{
    char name[32];
    snprintf(name, sizeof name, "w%d", l->ps.n);
    return mf_param_add(&l->ps, name, rows, cols, 2, MF_GROUP_POLICY, MF_INIT_NORMAL, 0.5f);
}

/* Drawn one after the other: compilers evaluate arguments in different orders, and numbers would differ. */
static struct mf_val through(struct lab *l, struct mf_val x, int cols)
{
    int bias = matrix(l, 1, cols), w = matrix(l, cols, mf_cols(l->g, x));
    return mf_linear(l->g, x, w, 0, bias, MF_NONE, MF_NONE, MF_ACT_NONE);
}

static struct mf_val operand(struct lab *l, int rows, int cols)
{
    return through(l, input(l, rows, U), cols);
}

static struct mf_val shared_operand(struct lab *l, int rows, int cols)
{
    return through(l, set(l, rows, U, NULL), cols);
}

#endif
