/* kernel_weigh.cu - a sample's weight. */
#include "cuda/elements.h"

extern "C" {
#include "op/loops.h"
}

static cudaError_t forward(const struct mf_kernel_call *k)
{
    struct mf_reader x = mf_reads(k, 0), weight = mf_reads(k, 1);
    float *y = k->call.y.data;
    int cols = k->call.y.cols;
    return mf_cells(k->stream, mf_tile_rows(&k->call.y, k->n), cols, [=] __device__(int i, int d) {
        float w = *mf_read_row(weight, i);
        y[(size_t)i * cols + d] = w == 0.0f ? 0.0f : mf_weighed(w, mf_read_row(x, i)[d]);
    });
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    struct mf_reader weight = mf_reads(k, 1);
    struct mf_tensor y = k->call.y;
    return mf_give_back<1>(k, [=] __device__(int, int i, int d) {
        float w = *mf_read_row(weight, i);
        return w == 0.0f ? 0.0f : mf_weighed(y.grad[(size_t)i * y.cols + d], w);
    });
}

extern const struct mf_kernel mf_kernel_weigh = {"weigh", forward, backward, NULL};
