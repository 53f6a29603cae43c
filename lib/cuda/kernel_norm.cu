/* kernel_norm.cu - layer, RMS and group norms: a team of threads takes a head of a block of rows. */
#include "cuda/block.h"

enum {
    SHARE = 16,      /* threads that share a column of the weights' gradient */
    TOGETHER = 32,   /* columns of a block */
    CHUNK_ROWS = 512 /* rows of a block, about: so there are blocks enough for narrow rows, too */
};

static cudaError_t launch(const struct mf_kernel_call *k, const struct mf_norm_call &a,
                          void (*kernel)(struct mf_norm_call))
{
    int team = a.wide * a.tall, block = team <= 32 ? MF_BLOCK : team, teams = block / team;
    return mf_launch(k->stream, dim3((a.units + teams - 1) / teams), dim3(block), MF_BLOCK / 32 * sizeof(float), kernel,
                     a);
}

__global__ void __launch_bounds__(MF_BLOCK, 4) norm_forward(const struct mf_norm_call a)
{
    struct mf_norm_member m = mf_norm_member_of(a);
    const float *__restrict__ x = a.x.data + m.first * a.x.cols + a.how.from + m.head * a.cols;
    float *y = a.y.data + mf_offset(&a.y, a.n, (int)m.first, m.head * a.cols);
    int apart = a.x.cols, wide = mf_row_stride(&a.y);
    mf_norm_forward(
        a, m, [=](int r, int j) { return x[(size_t)r * apart + j]; },
        [=](int r, int j, float to) { y[(size_t)r * wide + j] = to; });
}

/* Zeros the columns that the norm does not read: the first head those before it, the last those after it. */
__device__ __forceinline__ void zero_rest(const struct mf_norm_call &a, const struct mf_norm_member &m)
{
    int from = a.how.from, to = from + a.y.cols;
    for (int r = m.row; r < a.rows; r += a.tall) {
        float *dx = a.x.grad + (m.first + r) * a.x.cols;
        for (int j = m.col; m.head == 0 && j < from; j += a.wide)
            dx[j] = 0.0f;
        for (int j = to + m.col; m.head == a.how.heads - 1 && j < a.x.cols; j += a.wide)
            dx[j] = 0.0f;
    }
}

__global__ void __launch_bounds__(MF_BLOCK) norm_backward(const struct mf_norm_call a)
{
    struct mf_norm_member m = mf_norm_member_of(a);
    size_t at = m.first * a.x.cols + a.how.from + m.head * a.cols;
    const float *__restrict__ x = a.x.data + at;
    const float *__restrict__ dy = a.y.grad + mf_offset(&a.y, a.n, (int)m.first, m.head * a.cols);
    const float *W = a.W ? a.W + m.head * a.step : NULL;
    float *dx = a.x.grad + at;
    int apart = a.x.cols, wide = mf_row_stride(&a.y);
    struct mf_norm_pull pull = mf_norm_pull_of(
        a, m, [=](int r, int j) { return dy[(size_t)r * wide + j]; },
        [=](int r, int j) { return x[(size_t)r * apart + j]; });
    if (!m.real)
        return;
    mf_norm_elements(a, m, [&](int r, int j) {
        float to = mf_norm_back(pull, dy[(size_t)r * wide + j], W ? W + j : NULL, x[(size_t)r * apart + j]);
        float *p = dx + (size_t)r * apart + j;
        *p = a.x.add ? *p + to : to;
    });
    if (!a.x.add)
        zero_rest(a, m);
}

/* ---- the gradients of the weights ---- */

struct norm_sums {
    int samples, chunk, chunks; /* of a lane; samples of a chunk */
    int cols, blocks;           /* different weights, and blocks of them */
    int rows_at_once;           /* threads of a column that take rows of the same sample */
    struct mf_div block_rows;   /* rows of a block */
    float *W, *b;               /* the first lane's, or NULL */
    size_t stride;
    float *partial; /* (lanes, chunks, 2, cols): of W and b; NULL: there is one chunk, added to the lane */
};

static struct norm_sums sums_of(const struct mf_kernel_call *k)
{
    const struct mf_call *c = &k->call;
    struct mf_norm_call a = mf_norm_of(k);
    struct norm_sums s = {};
    int rows = c->y.rows * (a.step ? 1 : a.how.heads);
    s.samples = k->n / k->lanes;
    s.chunk = rows < CHUNK_ROWS ? CHUNK_ROWS / rows : 1;
    s.chunks = (s.samples + s.chunk - 1) / s.chunk;
    s.cols = a.step ? c->y.cols : a.cols;
    s.blocks = (s.cols + TOGETHER - 1) / TOGETHER;
    s.rows_at_once = mf_power_below(c->y.rows < SHARE ? c->y.rows : SHARE);
    s.block_rows = mf_div_by(a.rows);
    s.W = c->dW < 0 ? NULL : k->lane + c->dW;
    s.b = c->db < 0 ? NULL : k->lane + c->db;
    s.stride = k->stride;
    s.partial = s.chunks > 1 ? c->work : NULL;
    return s;
}

__device__ __forceinline__ void add_sums(const struct norm_sums &s, int lane, int which, int col, float sum)
{
    float *to = which ? s.b : s.W;
    if (to)
        to[lane * s.stride + col] += sum;
}

/* Thread (j, g) adds the rows of its samples and its share of their rows; a sample is in one chunk, and its rows go to
 * the same threads wherever it is. */
__global__ void __launch_bounds__(TOGETHER *SHARE) norm_weights(const struct mf_norm_call a, const struct norm_sums s)
{
    float *all = mf_shared<float>();                                          /* (2, SHARE, TOGETHER) */
    int chunk = blockIdx.x / s.blocks, block = blockIdx.x - chunk * s.blocks; /* neighbours have the same rows */
    int g = threadIdx.y, col = block * TOGETHER + threadIdx.x, lane = blockIdx.y, heads = a.how.heads;
    int own = a.step ? col / a.cols : 0, from = a.step ? own : 0, to = a.step ? own + 1 : heads, j = col - own * a.step;
    int first = chunk * s.chunk, last = first + s.chunk < s.samples ? first + s.chunk : s.samples;
    int rows = a.y.rows, wide = mf_row_stride(&a.y);
    float W = 0.0f, b = 0.0f;
    for (int i = first + g / s.rows_at_once; col < s.cols && i < last; i += SHARE / s.rows_at_once)
        for (int h = from; h < to; h++) {
            int r = g % s.rows_at_once, row = (lane * s.samples + i) * rows + r;
            const float *dy = a.y.grad + mf_offset(&a.y, a.n, row, h * a.cols) + j,
                        *x = a.x.data + (size_t)row * a.x.cols + a.how.from + h * a.cols + j;
#pragma unroll 4
            for (; r < rows; r += s.rows_at_once, row += s.rows_at_once) {
                const float *stats = a.aux + 2 * ((size_t)mf_quotient(s.block_rows, row) * heads + h);
                float d = *dy, unit = (a.how.norm == MF_NORM_LAYER ? *x - stats[0] : *x) * stats[1];
                W = d == 0.0f ? W : fmaf(d, unit, W);
                b += d;
                dy += s.rows_at_once * wide;
                x += s.rows_at_once * a.x.cols;
            }
        }
    all[g * TOGETHER + threadIdx.x] = W;
    all[(SHARE + g) * TOGETHER + threadIdx.x] = b;
    __syncthreads();
    if (g > 1 || col >= s.cols)
        return;
    float sum = 0.0f;
    for (int i = 0; i < SHARE; i++)
        sum += all[(g * SHARE + i) * TOGETHER + threadIdx.x];
    if (s.partial)
        s.partial[(((size_t)lane * s.chunks + chunk) * 2 + g) * s.cols + col] = sum;
    else
        add_sums(s, lane, g, col, sum);
}

__global__ void __launch_bounds__(TOGETHER *SHARE) norm_chunks(const struct norm_sums s)
{
    float *all = mf_shared<float>(); /* (SHARE, TOGETHER) */
    int g = threadIdx.y, at = blockIdx.x * TOGETHER + threadIdx.x, lane = blockIdx.y, cols = 2 * s.cols;
    float sum = 0.0f;
#pragma unroll 4
    for (int i = g; at < cols && i < s.chunks; i += SHARE)
        sum += s.partial[((size_t)lane * s.chunks + i) * cols + at];
    all[g * TOGETHER + threadIdx.x] = sum;
    __syncthreads();
    if (g || at >= cols)
        return;
    sum = 0.0f;
    for (int i = 0; i < SHARE; i++)
        sum += all[i * TOGETHER + threadIdx.x];
    add_sums(s, lane, at / s.cols, at % s.cols, sum);
}

cudaError_t mf_norm_weights(const struct mf_kernel_call *k)
{
    if (k->call.dW < 0 && k->call.db < 0)
        return cudaSuccess;
    struct norm_sums s = sums_of(k);
    size_t room = SHARE * TOGETHER * sizeof(float);
    cudaError_t rc = mf_launch(k->stream, dim3(s.blocks * s.chunks, k->lanes), dim3(TOGETHER, SHARE), 2 * room,
                               norm_weights, mf_norm_of(k), s);
    return rc || !s.partial ? rc
                            : mf_launch(k->stream, dim3((2 * s.cols + TOGETHER - 1) / TOGETHER, k->lanes),
                                        dim3(TOGETHER, SHARE), room, norm_chunks, s);
}

/* ---- the operation ---- */

static cudaError_t forward(const struct mf_kernel_call *k)
{
    return launch(k, mf_norm_of(k), norm_forward);
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    cudaError_t rc = k->call.x[0].grad ? launch(k, mf_norm_of(k), norm_backward) : cudaSuccess;
    return MF_THEN(rc, mf_norm_weights(k));
}

static size_t work(const struct mf_kernel_call *k, bool backward)
{
    struct norm_sums s = sums_of(k);
    bool wanted = backward && (s.W || s.b) && s.chunks > 1;
    return wanted ? (size_t)k->lanes * s.chunks * 2 * s.cols : 0;
}

extern const struct mf_kernel mf_kernel_norm = {"norm", forward, backward, work};
