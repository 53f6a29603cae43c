/* fast_attention.c - attention: by the kernels, whose gradients only add. */
#include "cpu/fast.h"
#include "cpu/kern.h"
#include "dev/ref.h"

static void forward(const struct mf_cpu_call *c, int n)
{
    mf_kern()->attention(c, n);
}

static void backward(const struct mf_cpu_call *c, int n, float *lane)
{
    mf_ref_zero(&c->call, n);
    mf_kern()->attention_back(&c->call, n, lane);
}

static size_t work(const struct mf_cpu_call *c, int n, bool back)
{
    return mf_kern()->attention_work(&c->call, n, back);
}

const struct mf_fast mf_fast_attention = {
    .name = "attention",
    .forward = forward,
    .backward = backward,
    .work = work,
    .divides = true,
};
