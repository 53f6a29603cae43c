/* kernel_places.cu - places of rows among those that a mask leaves: a thread takes a sample. */
#include "cuda/launch.h"

static cudaError_t forward(const struct mf_kernel_call *k)
{
    struct mf_tensor x = k->call.x[0], y = k->call.y;
    return mf_cells(k->stream, y.shared ? 1 : k->n, 1, [=] __device__(int sample, int) {
        float count = 0.0f;
        for (int i = 0; i < y.rows; i++) {
            count += i < x.rows ? x.data[(size_t)(x.shared ? 0 : sample) * x.rows + i] : 1.0f;
            y.data[(size_t)sample * y.rows + i] = count - 1.0f;
        }
    });
}

extern const struct mf_kernel mf_kernel_places = {"places", forward, NULL, NULL};
