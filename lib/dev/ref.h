/* ref.h - functions that the reference loops of several operations share. */
#ifndef MF_DEV_REF_H
#define MF_DEV_REF_H

#include "dev/op.h"

/* Zeroes those operands' gradients that the call sets, so that its loops may add to all. */
void mf_ref_zero(const struct mf_call *c, int n);

/* y = act(y + the operands from `first` on); the derivative goes to aux where there is one. */
void mf_ref_add_act(const struct mf_call *c, int n, int first, enum mf_act act);
/* y.grad becomes the gradient before the activation, and goes to the operands from `first` on. */
void mf_ref_add_act_back(const struct mf_call *c, int n, int first, enum mf_act act);

/* For mf_op.by_rows: each operand has a row for each row of the result, or one that is shared. */
bool mf_ref_by_rows(const struct mf_call *c);

/* The row of x[k] that row i of y reads, and its gradient (NULL: not wanted). */
MF_EVERYWHERE static inline const float *mf_ref_row(const struct mf_call *c, int k, int i)
{
    return c->x[k].data + (size_t)mf_row_of(&c->x[k], &c->y, i) * (size_t)c->x[k].cols;
}

MF_EVERYWHERE static inline float *mf_ref_grad(const struct mf_call *c, int k, int i)
{
    return c->x[k].grad ? c->x[k].grad + (size_t)mf_row_of(&c->x[k], &c->y, i) * (size_t)c->x[k].cols : NULL;
}

/* Floats from a tensor's data to its sample s. */
MF_EVERYWHERE static inline size_t mf_ref_sample(const struct mf_tensor *t, int s)
{
    return t->shared ? 0 : (size_t)s * (size_t)t->rows * (size_t)t->cols;
}

/* A sample's weight in a loss times the gradient of that loss: 0 where the gradient is 0, even if the weight is NaN. */
MF_EVERYWHERE static inline double mf_ref_weigh(float weight, float grad)
{
    return grad == 0.0f ? 0.0 : (double)weight * (double)grad;
}

#endif
