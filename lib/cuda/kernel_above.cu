/* kernel_above.cu - a mask: which numbers are above a bound. */
#include "cuda/elements.h"

static cudaError_t forward(const struct mf_kernel_call *k)
{
    struct mf_reader x = mf_reads(k, 0);
    float *y = k->call.y.data, bound = *(const float *)k->call.how;
    return mf_cells(k->stream, mf_tile_rows(&k->call.y, k->n), 1,
                    [=] __device__(int i, int) { y[i] = *mf_read_row(x, i) > bound ? 1.0f : 0.0f; });
}

extern const struct mf_kernel mf_kernel_above = {"above", forward, NULL, NULL};
