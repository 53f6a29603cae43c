/* fast_transpose.c - transposes: by the kernels. */
#include "cpu/fast.h"
#include "cpu/kern.h"

static void forward(const struct mf_cpu_call *call, int n)
{
    const struct mf_tensor *y = &call->call.y, *x = &call->call.x[0];
    mf_kern()->transpose(mf_tile_rows(x, n) / y->cols, y->cols, x->cols, x->data, y->data, false);
}

static void backward(const struct mf_cpu_call *call, int n, float *lane)
{
    const struct mf_tensor *y = &call->call.y, *x = &call->call.x[0];
    (void)lane;
    mf_kern()->transpose(mf_tile_rows(x, n) / y->cols, x->cols, y->cols, y->grad, x->grad, x->add);
}

const struct mf_fast mf_fast_transpose = {
    .name = "transpose",
    .forward = forward,
    .backward = backward,
};
