/* fast_gate.c - gated additions: by the kernels, whose gradients only add. */
#include "cpu/fast.h"
#include "cpu/kern.h"
#include "dev/ref.h"

static void forward(const struct mf_cpu_call *c, int n)
{
    mf_kern()->gate(&c->call, n);
}

static void backward(const struct mf_cpu_call *c, int n, float *lane)
{
    mf_ref_zero(&c->call, n);
    mf_kern()->gate_back(&c->call, n, lane);
}

const struct mf_fast mf_fast_gate = {
    .name = "gate",
    .forward = forward,
    .backward = backward,
};
