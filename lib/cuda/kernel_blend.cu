/* kernel_blend.cu - sums of rows, weighed by a parameter. */
#include "cuda/launch.h"

struct blending { /* a call */
    const float *x, *W, *g;
    float *y, *dx;
    int rows, R, N; /* of y; rows of x for one of y; columns */
    bool add;
};

static blending blending_of(const struct mf_kernel_call *k)
{
    const struct mf_call *c = &k->call;
    const struct mf_tensor *x = &c->x[0];
    return {x->data,   c->W,  c->y.grad, c->y.data, x->grad, mf_tile_rows(&c->y, k->n), x->rows / c->y.rows,
            c->y.cols, x->add};
}

static cudaError_t forward(const struct mf_kernel_call *k)
{
    blending s = blending_of(k);
    return mf_cells(k->stream, s.rows, s.N, [=] __device__(int i, int j) {
        const float *x = s.x + (size_t)i * s.R * s.N + j, *W = s.W + j;
        float sum = 0.0f;
#pragma unroll 8
        for (int r = 0; r < s.R; r++, x += s.N, W += s.N)
            sum = fmaf(*W, *x, sum);
        s.y[(size_t)i * s.N + j] = sum;
    });
}

static cudaError_t to_rows(const struct mf_kernel_call *k, const blending &s)
{
    struct mf_div by = mf_div_by(s.R);
    return mf_cells(k->stream, s.rows * s.R, s.N, [=] __device__(int row, int j) {
        int i = mf_quotient(by, row), r = row - i * s.R;
        float g = s.g[(size_t)i * s.N + j], d = g == 0.0f ? 0.0f : g * s.W[r * s.N + j];
        float *to = s.dx + (size_t)row * s.N + j;
        *to = s.add ? *to + d : d;
    });
}

/* W as a shared operand of rows that are those of x in another order: of a sample, row r of every block, then row r + 1
 * of every block. */
static cudaError_t to_weights(const struct mf_kernel_call *k, const blending &s)
{
    struct mf_kernel_call rows = *k;
    struct mf_tensor W = {.rows = s.R, .cols = s.N, .shared = true, .add = true};
    int blocks = k->call.y.rows;
    struct mf_div of_sample = mf_div_by(blocks * s.R), by = mf_div_by(blocks);
    rows.call.y.rows = blocks * s.R;
    return mf_fold(&rows, &W, k->lane + k->call.dW, s.N, s.N, [=] __device__(int i, int j) {
        int sample = mf_quotient(of_sample, i), at = i - sample * (int)of_sample.by, r = mf_quotient(by, at);
        size_t row = (size_t)sample * blocks + at - r * blocks; /* of y */
        float g = s.g[row * s.N + j];
        return g == 0.0f ? 0.0f : g * s.x[(row * s.R + r) * s.N + j];
    });
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    blending s = blending_of(k);
    cudaError_t rc = k->call.dW >= 0 ? to_weights(k, s) : cudaSuccess;
    return rc == cudaSuccess && s.dx ? to_rows(k, s) : rc;
}

extern const struct mf_kernel mf_kernel_blend = {"blend", forward, backward, NULL};
