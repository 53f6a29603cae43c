/* kernel_flow_logprob.cu - the log-probability of a denoising step. */
#include "cuda/flow.h"

static cudaError_t forward(const struct mf_kernel_call *k)
{
    return mf_cells(k->stream, mf_tile_rows(&k->call.y, k->n), k->call.y.cols, mf_flow_logprob_of_call(k));
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    struct mf_reader next = mf_reads(k, 0), mean = mf_reads(k, 1), coef = mf_reads(k, 2), std = mf_reads(k, 3);
    struct mf_tensor y = k->call.y;
    return mf_give_back<4>(k, [=] __device__(int o, int i, int d) {
        float g = y.grad[(size_t)i * y.cols + d];
        if (g == 0.0f)
            return 0.0f;
        const float *c = mf_read_row(coef, i);
        float s = mf_flow_std_at(c, mf_read_row(std, i), d);
        if (s == 0.0f)
            return 0.0f;
        float x = mf_read_row(next, i)[d], m = mf_read_row(mean, i)[d];
        if (o == 3)
            return mf_flow_logprob_by_std(g, c, x, m, s);
        float by_mean = mf_flow_logprob_by_mean(g, x, m, s);
        return o == 1 ? by_mean : -by_mean;
    });
}

extern const struct mf_kernel mf_kernel_flow_logprob = {"flow_logprob", forward, backward, NULL};
