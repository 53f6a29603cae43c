/* fast_noise_std.c - the standard deviation of a noise network. */
#include "cpu/fast.h"
#include "cpu/kern.h"
#include "dev/ref.h"

static size_t floats(const struct mf_tensor *t, int n)
{
    return (size_t)mf_tile_rows(t, n) * (size_t)t->cols;
}

/* exp(logvar / 2), in place: tanh, a line, exp. */
static void forward(const struct mf_cpu_call *call, int n)
{
    const struct mf_call *c = &call->call;
    size_t size = floats(&c->y, n);
    float low = c->x[1].data[0], high = c->x[1].data[1], *y = c->y.data;
    mf_kern()->act(MF_ACT_TANH, size, c->x[0].data, y, NULL);
    for (size_t i = 0; i < size; i++)
        y[i] = 0.5f * (low + (high - low) * 0.5f * (y[i] + 1.0f));
    mf_kern()->exp(size, y, y);
}

static void backward(const struct mf_cpu_call *call, int n, float *lane)
{
    const struct mf_call *c = &call->call;
    size_t size = floats(&c->y, n);
    float quarter = 0.25f * (c->x[1].data[1] - c->x[1].data[0]), *t = c->work;
    (void)lane;
    mf_ref_zero(c, n);
    mf_kern()->act(MF_ACT_TANH, size, c->x[0].data, t, NULL);
    for (size_t i = 0; i < size; i++) {
        float g = c->y.grad[i];
        c->x[0].grad[i] += g == 0.0f ? 0.0f : g * c->y.data[i] * quarter * (1.0f - t[i] * t[i]);
    }
}

static size_t work(const struct mf_cpu_call *call, int n, bool back)
{
    const struct mf_call *c = &call->call;
    return back ? floats(&c->y, n) : 0;
}

const struct mf_fast mf_fast_noise_std = {
    .name = "noise_std",
    .forward = forward,
    .backward = backward,
    .work = work,
};
