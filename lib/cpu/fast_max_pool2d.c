/* fast_max_pool2d.c - the largest of windows of maps: by the kernels. */
#include "cpu/fast.h"
#include "cpu/kern.h"
#include "op/how.h"

static void forward(const struct mf_cpu_call *c, int n)
{
    mf_kern()->max_pool2d(c, n);
}

static void backward(const struct mf_cpu_call *c, int n, float *lane)
{
    (void)lane;
    mf_kern()->max_pool2d_back(&c->call, n);
}

static size_t work(const struct mf_cpu_call *c, int n, bool back)
{
    const struct mf_patch *how = c->call.how;
    (void)n;
    return back ? 3 * (size_t)how->W : 0;
}

const struct mf_fast mf_fast_max_pool2d = {
    .name = "max_pool2d",
    .forward = forward,
    .backward = backward,
    .work = work,
    .divides = true,
};
