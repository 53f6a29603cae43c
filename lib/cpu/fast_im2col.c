/* fast_im2col.c - windows of maps: by the kernels. */
#include "cpu/fast.h"
#include "cpu/kern.h"
#include "op/how.h"

static void forward(const struct mf_cpu_call *c, int n)
{
    mf_kern()->im2col(c, n);
}

static void backward(const struct mf_cpu_call *c, int n, float *lane)
{
    (void)lane;
    mf_kern()->im2col_back(&c->call, n);
}

static size_t work(const struct mf_cpu_call *c, int n, bool back)
{
    const struct mf_patch *how = c->call.how;
    (void)n;
    return back ? 3 * (size_t)how->W : 0;
}

const struct mf_fast mf_fast_im2col = {
    .name = "im2col",
    .forward = forward,
    .backward = backward,
    .work = work,
    .divides = true,
};
