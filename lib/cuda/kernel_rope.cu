/* kernel_rope.cu - rotary position embeddings: a thread takes a pair of numbers. */
#include "cuda/elements.h"

extern "C" {
#include "op/loops.h"
}

struct rope {
    const float *waves;
    int rows, wave_rows, half, cols; /* of y, and of the waves */
    bool shared;
};

static struct rope rope_of(const struct mf_kernel_call *k)
{
    const struct mf_tensor *w = &k->call.x[1];
    return {w->data, k->call.y.rows, w->rows, w->cols / 2, k->call.y.cols, w->shared};
}

/* The sine of pair `at` of row i; its cosine is `half` further. */
__device__ __forceinline__ const float *wave(const struct rope &r, int i, int at)
{
    int row = (r.shared ? 0 : i / r.rows * r.wave_rows) + i % r.rows % r.wave_rows;
    return r.waves + (size_t)row * 2 * r.half + at % r.half;
}

/* Floats from the first number of a row to the first of pair `at`. */
__device__ __forceinline__ int first(const struct rope &r, int at)
{
    return at / r.half * 2 * r.half + at % r.half;
}

static cudaError_t forward(const struct mf_kernel_call *k)
{
    struct rope r = rope_of(k);
    struct mf_reader x = mf_reads(k, 0);
    float *y = k->call.y.data;
    return mf_cells(k->stream, mf_tile_rows(&k->call.y, k->n), r.cols / 2, [=] __device__(int i, int at) {
        const float *w = wave(r, i, at), *from = mf_read_row(x, i) + first(r, at);
        float *to = y + (size_t)i * r.cols + first(r, at), a = from[0], b = from[r.half];
        to[0] = mf_turned(a, b, w[r.half], w[0]);
        to[r.half] = mf_turned(b, a, w[r.half], -w[0]);
    });
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    struct rope r = rope_of(k);
    struct mf_tensor x = k->call.x[0];
    const float *dy = k->call.y.grad;
    return mf_cells(k->stream, mf_tile_rows(&k->call.y, k->n), r.cols / 2, [=] __device__(int i, int at) {
        size_t here = (size_t)i * r.cols + first(r, at);
        const float *w = wave(r, i, at);
        float a = dy[here], b = dy[here + r.half];
        bool none = a == 0.0f && b == 0.0f;
        mf_give(x, here, none ? 0.0f : mf_turned(a, b, w[r.half], -w[0]));
        mf_give(x, here + r.half, none ? 0.0f : mf_turned(b, a, w[r.half], w[0]));
    });
}

extern const struct mf_kernel mf_kernel_rope = {"rope", forward, backward, NULL};
