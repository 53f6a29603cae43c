/* kernel_ppo_loss.cu - PPO's clipped surrogate. */
#include "cuda/elements.h"

extern "C" {
#include "dev/ref.h"
#include "rl/loss_at.h"
}

static cudaError_t forward(const struct mf_kernel_call *k)
{
    int E = k->call.x[0].cols;
    const float *logp = k->call.x[0].data, *old = k->call.x[1].data, *adv = k->call.x[2].data,
                *weight = k->call.x[3].data, *knobs = k->call.x[4].data;
    float *y = k->call.y.data;
    return mf_sums(
        k->stream, k->n, E,
        [=] __device__(int s, int e) {
            size_t i = (size_t)s * E + e;
            double w = (double)weight[i];
            return w == 0.0 ? 0.0 : w * mf_ppo_element(knobs, logp[i], old[i], adv[s]).loss;
        },
        [=] __device__(int s, double sum) { y[s] = (float)sum; });
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    struct mf_tensor logp = k->call.x[0];
    int E = logp.cols;
    const float *old = k->call.x[1].data, *adv = k->call.x[2].data, *weight = k->call.x[3].data,
                *knobs = k->call.x[4].data, *grad = k->call.y.grad;
    return mf_cells(k->stream, k->n, E, [=] __device__(int s, int e) {
        size_t i = (size_t)s * E + e;
        double w = mf_ref_weigh(weight[i], grad[s]);
        mf_give(logp, i, w == 0.0 ? 0.0f : (float)(w * mf_ppo_element(knobs, logp.data[i], old[i], adv[s]).slope));
    });
}

extern const struct mf_kernel mf_kernel_ppo_loss = {"ppo_loss", forward, backward, NULL};
