/* kernel_mse.cu - the mean squared error. */
#include "cuda/elements.h"

extern "C" {
#include "dev/ref.h"
#include "op/loops.h"
}

static cudaError_t forward(const struct mf_kernel_call *k)
{
    struct mf_tensor a = k->call.x[0], b = k->call.x[1], weight = k->call.x[2];
    int size = a.rows * a.cols;
    float *y = k->call.y.data;
    return mf_sums(
        k->stream, k->n, size,
        [=] __device__(int s, int j) {
            bool masked = weight.data[mf_ref_sample(&weight, s)] == 0.0f;
            return masked ? 0.0 : mf_squared_error(a.data[mf_ref_sample(&a, s) + j], b.data[mf_ref_sample(&b, s) + j]);
        },
        [=] __device__(int s, double sum) {
            y[s] = (float)((double)weight.data[mf_ref_sample(&weight, s)] * sum / size);
        });
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    struct mf_tensor a = k->call.x[0], b = k->call.x[1], weight = k->call.x[2];
    int size = a.rows * a.cols;
    const float *grad = k->call.y.grad;
    return mf_cells(k->stream, k->n, size, [=] __device__(int s, int j) {
        double w = 2.0 * mf_ref_weigh(weight.data[mf_ref_sample(&weight, s)], grad[s]) / size;
        size_t at = mf_ref_sample(&a, s) + j;
        mf_give(a, at, w == 0.0 ? 0.0f : (float)(w * ((double)a.data[at] - (double)b.data[mf_ref_sample(&b, s) + j])));
    });
}

extern const struct mf_kernel mf_kernel_mse = {"mse", forward, backward, NULL};
