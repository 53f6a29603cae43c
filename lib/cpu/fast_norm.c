/* fast_norm.c - norms: by the kernels, whose gradients only add. */
#include "cpu/fast.h"
#include "cpu/kern.h"
#include "dev/ref.h"

static void forward(const struct mf_cpu_call *c, int n)
{
    mf_kern()->norm(c, n);
}

static void backward(const struct mf_cpu_call *c, int n, float *lane)
{
    mf_ref_zero(&c->call, n);
    mf_kern()->norm_back(&c->call, n, lane);
}

const struct mf_fast mf_fast_norm = {
    .name = "norm",
    .forward = forward,
    .backward = backward,
    .divides = true,
};
