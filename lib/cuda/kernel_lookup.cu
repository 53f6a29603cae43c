/* kernel_lookup.cu - rows of a parameter by their numbers. */
#include "cuda/launch.h"

extern "C" {
#include "op/loops.h"
}

static cudaError_t forward(const struct mf_kernel_call *k)
{
    struct mf_lookup_how how = *(const struct mf_lookup_how *)k->call.how;
    const float *index = k->call.x[0].data, *W = k->call.W;
    float *y = k->call.y.data;
    int cols = k->call.y.cols;
    return mf_cells(k->stream, mf_tile_rows(&k->call.y, k->n), cols, [=] __device__(int i, int j) {
        int row = mf_lookup_row(index[i], how.rows);
        y[(size_t)i * cols + j] = row < 0 ? 0.0f : how.scale * W[(size_t)row * cols + j];
    });
}

/* A thread adds a column of a lane's samples to that lane, in order. */
static cudaError_t backward(const struct mf_kernel_call *k)
{
    struct mf_lookup_how how = *(const struct mf_lookup_how *)k->call.how;
    struct mf_tensor y = k->call.y;
    const float *index = k->call.x[0].data;
    float *lane = k->lane + k->call.dW;
    size_t stride = k->stride;
    int rows = mf_tile_rows(&y, k->n) / k->lanes;
    if (k->call.dW < 0)
        return cudaSuccess;
    return mf_cells(k->stream, k->lanes, y.cols, [=] __device__(int l, int j) {
        for (int i = l * rows; i < (l + 1) * rows; i++) {
            int row = mf_lookup_row(index[i], how.rows);
            float g = y.grad[(size_t)i * y.cols + j];
            if (row >= 0 && g != 0.0f)
                lane[l * stride + (size_t)row * y.cols + j] += how.scale * g;
        }
    });
}

extern const struct mf_kernel mf_kernel_lookup = {"lookup", forward, backward, NULL};
