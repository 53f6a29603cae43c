/* kernel_value_loss.cu - the critic's loss. */
#include "cuda/elements.h"

extern "C" {
#include "dev/ref.h"
#include "rl/loss_at.h"
}

static cudaError_t forward(const struct mf_kernel_call *k)
{
    const float *v = k->call.x[0].data, *ret = k->call.x[1].data, *old = k->call.x[2].data, *weight = k->call.x[3].data,
                *knobs = k->call.x[4].data;
    float *y = k->call.y.data;
    return mf_each(k->stream, k->n, [=] __device__(size_t s) {
        double w = (double)weight[s];
        y[s] = w == 0.0 ? 0.0f : (float)(w * mf_value_element(knobs, v[s], ret[s], old[s]).loss);
    });
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    struct mf_tensor v = k->call.x[0];
    const float *ret = k->call.x[1].data, *old = k->call.x[2].data, *weight = k->call.x[3].data,
                *knobs = k->call.x[4].data, *grad = k->call.y.grad;
    return mf_each(k->stream, k->n, [=] __device__(size_t s) {
        double w = mf_ref_weigh(weight[s], grad[s]);
        mf_give(v, s, w == 0.0 ? 0.0f : (float)(w * mf_value_element(knobs, v.data[s], ret[s], old[s]).slope));
    });
}

extern const struct mf_kernel mf_kernel_value_loss = {"value_loss", forward, backward, NULL};
