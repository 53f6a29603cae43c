/* kernel_transpose.cu - the transpose of every block of rows. */
#include "cuda/launch.h"

enum { SIDE = 32, TALL = 8 }; /* of a square that a block of threads turns in shared memory; its threads' rows */

/* from (rows, cols) of every block to (cols, rows), or added there. A block's squares follow one another. */
struct turning {
    const float *from;
    float *to;
    int rows, cols;
    struct mf_div wide, squares; /* squares along the columns; of a block */
    bool add;
};

static __global__ void __launch_bounds__(SIDE *TALL) turn_kernel(turning t)
{
    float *square = mf_shared<float>(); /* (SIDE, SIDE + 1): neither its rows nor its columns share a bank */
    int block = mf_quotient(t.squares, (int)blockIdx.x), at = (int)blockIdx.x - block * (int)t.squares.by;
    int row = mf_quotient(t.wide, at), col = (at - row * (int)t.wide.by) * SIDE, x = threadIdx.x, y = threadIdx.y;
    size_t first = (size_t)block * t.rows * t.cols;
    row *= SIDE;
    for (int r = y; r < SIDE && row + r < t.rows; r += TALL)
        if (col + x < t.cols)
            square[r * (SIDE + 1) + x] = t.from[first + (size_t)(row + r) * t.cols + col + x];
    __syncthreads();
    for (int c = y; c < SIDE && col + c < t.cols; c += TALL)
        if (row + x < t.rows) {
            float *to = t.to + first + (size_t)(col + c) * t.rows + row + x, number = square[x * (SIDE + 1) + c];
            *to = t.add ? *to + number : number;
        }
}

static cudaError_t turn(const struct mf_kernel_call *k, const float *from, float *to, int rows, int cols, bool add)
{
    int wide = (cols + SIDE - 1) / SIDE, squares = (rows + SIDE - 1) / SIDE * wide;
    long blocks = (long)mf_tile_rows(&k->call.x[0], k->n) * k->call.x[0].cols / ((long)rows * cols);
    turning t = {from, to, rows, cols, mf_div_by(wide), mf_div_by(squares), add};
    return mf_launch(k->stream, dim3((unsigned)(blocks * squares)), dim3(SIDE, TALL), SIDE * (SIDE + 1) * sizeof(float),
                     turn_kernel, t);
}

static cudaError_t forward(const struct mf_kernel_call *k)
{
    const struct mf_tensor *x = &k->call.x[0], *y = &k->call.y;
    return turn(k, x->data, y->data, y->cols, x->cols, false);
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    const struct mf_tensor *x = &k->call.x[0], *y = &k->call.y;
    return turn(k, y->grad, x->grad, x->cols, y->cols, x->add);
}

extern const struct mf_kernel mf_kernel_transpose = {"transpose", forward, backward, NULL};
