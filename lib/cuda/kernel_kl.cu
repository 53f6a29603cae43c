/* kernel_kl.cu - the KL divergence from the policy that sampled. */
#include "cuda/elements.h"

extern "C" {
#include "rl/loss_at.h"
}

static cudaError_t forward(const struct mf_kernel_call *k)
{
    int E = k->call.x[0].cols;
    const float *logp = k->call.x[0].data, *old = k->call.x[1].data, *weight = k->call.x[2].data,
                *knobs = k->call.x[3].data;
    float *y = k->call.y.data;
    return mf_sums(
        k->stream, k->n, E,
        [=] __device__(int s, int e) {
            size_t i = (size_t)s * E + e;
            double w = (double)weight[i];
            return w == 0.0 ? 0.0 : w * mf_kl_element(knobs, logp[i], old[i]);
        },
        [=] __device__(int s, double sum) { y[s] = (float)sum; });
}

extern const struct mf_kernel mf_kernel_kl = {"kl", forward, NULL, NULL};
