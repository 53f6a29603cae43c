/* kernel_linear.cu - products with a weight, plus bias and residuals: forward one product; backward a pass over y.grad,
 * then a product for x, and one per lane for W.
 */
#include "cuda/gemm.h"
#include "cuda/launch.h"
#include "dev/act.h"

#include <lt.h>

extern "C" {
#include "op/how.h"
}

static const struct mf_linear_how *how_of(const struct mf_call *c)
{
    return (const struct mf_linear_how *)c->how;
}

static cudaError_t forward(const struct mf_kernel_call *k)
{
    const struct mf_call *c = &k->call;
    const struct mf_linear_how *how = how_of(c);
    struct mf_product p = {};
    p.M = mf_tile_rows(&c->y, k->n), p.N = c->y.cols, p.K = c->x[0].cols, p.batch = 1;
    p.A = c->x[0].data, p.lda = p.K;
    p.B = c->W + how->from, p.ldb = c->ldw, p.B_transposed = !how->transposed;
    p.C = c->y.data, p.ldc = p.N;
    p.b = c->b, p.sum = c, p.act = how->act, p.slope = c->aux;
    return mf_product(&p, k->precision, k->stream);
}

/* ---- the pass over y.grad: blocks of at most CHUNK rows, each thread with some columns of them ---- */

enum { CHUNK = 16, THREADS = 128 };

/* Chunks are of whole samples, or else parts of one, so that the order in which the rows of a sample are added does not
 * depend on its place. */
struct chunks {
    int rows, sample, N; /* rows: of a lane */
    int parts, span;     /* so many chunks have so many rows together */
    int of_lane;
    size_t live, sums; /* floats of scratch */
};

static struct chunks chunks_of(const struct mf_kernel_call *k)
{
    struct chunks c = {};
    c.rows = mf_tile_rows(&k->call.y, k->n) / k->lanes, c.sample = k->call.y.rows, c.N = k->call.y.cols;
    c.parts = (c.sample + CHUNK - 1) / CHUNK;
    c.span = c.parts > 1 ? c.sample : CHUNK / c.sample * c.sample;
    c.of_lane = (c.rows + c.span - 1) / c.span * c.parts;
    c.live = ((size_t)k->lanes * c.rows + 255) / 256 * 64;
    c.sums = ((size_t)k->lanes * c.of_lane * c.N + 63) / 64 * 64; /* what follows is aligned */
    return c;
}

static size_t work(const struct mf_kernel_call *k, bool backward)
{
    struct chunks c = chunks_of(k);
    return backward ? c.live + c.sums + (mf_lt_on() ? MF_LT_WORK : 0) : 0;
}

struct back_pass {
    struct chunks c;
    enum mf_act act;
    float *grad;
    const float *from; /* what the derivative is computed from: y, or aux where it was kept; NULL: it is 1 */
    struct {           /* operands of the same rows, from the last; grad NULL: none */
        float *grad;
        bool add;
    } same[2];
    unsigned char *live; /* (lanes, rows): the row has a gradient that is not 0; or NULL */
    float *sums;         /* (lanes, chunks, N): over the rows of a chunk, sample by sample; or NULL */
};

/* V columns at once. */
template <int V> __global__ void __launch_bounds__(THREADS, 8) pass_back(const struct back_pass p)
{
    typedef mf_pack<V> pack;
    unsigned *of_warp = mf_shared<unsigned>(), any = 0; /* bit r: row r of the chunk */
    int chunk = blockIdx.x, lane = blockIdx.y, N = p.c.N;
    int start = chunk / p.c.parts * p.c.span, from = start + chunk % p.c.parts * CHUNK;
    int rows = min(CHUNK, min(start + p.c.span, p.c.rows) - from);
    size_t row = (size_t)lane * p.c.rows + from, first = row * N;
    for (int col = threadIdx.x * V; col < N; col += THREADS * V) {
        pack sum = {}, sample = {};
        int last = min(p.c.sample, rows) - 1; /* row of the sample */
#pragma unroll 4
        for (int r = 0; r < rows; r++) {
            size_t at = first + (size_t)(r * N + col);
            pack g = *reinterpret_cast<const pack *>(p.grad + at), slope = {};
            if (p.from)
                slope = *reinterpret_cast<const pack *>(p.from + at);
#pragma unroll
            for (int e = 0; e < V; e++) {
                g.of[e] = mf_act_back(p.act, g.of[e], slope.of[e], slope.of[e]);
                any |= (g.of[e] != 0.0f ? 1u : 0u) << r;
                sample.of[e] += g.of[e];
                sum.of[e] += r == last ? sample.of[e] : 0.0f;
                sample.of[e] = r == last ? 0.0f : sample.of[e];
            }
            last += r == last ? p.c.sample : 0;
            if (p.from)
                *reinterpret_cast<pack *>(p.grad + at) = g;
#pragma unroll
            for (int i = 0; i < 2; i++)
                if (p.same[i].grad) {
                    pack *to = reinterpret_cast<pack *>(p.same[i].grad + at), d = g;
                    if (p.same[i].add) {
                        pack old = *to;
#pragma unroll
                        for (int e = 0; e < V; e++)
                            d.of[e] += old.of[e];
                    }
                    *to = d;
                }
        }
        if (p.sums)
            *reinterpret_cast<pack *>(p.sums + ((size_t)lane * p.c.of_lane + chunk) * N + col) = sum;
    }
    if (!p.live)
        return;
#pragma unroll
    for (int by = 16; by; by /= 2)
        any |= __shfl_xor_sync(~0u, any, by);
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = any;
    __syncthreads();
    if ((int)threadIdx.x < rows) {
        for (int w = 0; w < THREADS / 32; w++)
            any |= of_warp[w];
        p.live[row + threadIdx.x] = any >> threadIdx.x & 1;
    }
}

static cudaError_t pass(const struct mf_kernel_call *k)
{
    const struct mf_call *c = &k->call;
    struct back_pass p = {};
    int N = c->y.cols;
    p.c = chunks_of(k), p.act = how_of(c)->act;
    p.grad = c->y.grad, p.from = p.act == MF_ACT_NONE ? NULL : mf_act_keeps(p.act) ? c->aux : c->y.data;
    bool fours = mf_by_fours(p.grad, N) && mf_by_fours(p.from, N);
    for (int i = c->n_x - 1, n = 0; i > 0; i--)
        if (c->x[i].grad && mf_same_rows(&c->x[i], &c->y)) {
            p.same[n].grad = c->x[i].grad, p.same[n++].add = c->x[i].add;
            fours = fours && mf_by_fours(c->x[i].grad, N);
        }
    if (c->dW >= 0)
        p.live = (unsigned char *)c->work;
    if (c->db >= 0)
        p.sums = c->work + p.c.live;
    if (p.act == MF_ACT_NONE && !p.same[0].grad && !p.live && !p.sums)
        return cudaSuccess;
    return mf_launch(k->stream, dim3(p.c.of_lane, k->lanes), dim3(THREADS), THREADS / 32 * sizeof(unsigned),
                     fours ? pass_back<4> : pass_back<1>, p);
}

/* The gradient of b: a sum over chunks. */
static cudaError_t b_back(const struct mf_kernel_call *k)
{
    struct chunks c = chunks_of(k);
    struct mf_kernel_call of = *k;
    const float *sums = k->call.work + c.live;
    int N = k->call.y.cols;
    struct mf_tensor b = {
        .data = nullptr, .grad = nullptr, .rows = 1, .cols = N, .heads = 1, .shared = true, .add = true};
    of.n = k->lanes * c.of_lane / c.parts;
    of.call.y.rows = c.parts;
    return mf_fold(&of, &b, k->lane + k->call.db, N, N,
                   [=] __device__(int i, int j) { return sums[(size_t)i * N + j]; });
}

static cudaError_t residuals_back(const struct mf_kernel_call *k)
{
    const struct mf_call *c = &k->call;
    cudaError_t rc = cudaSuccess;
    const float *grad = c->y.grad;
    int N = c->y.cols;
    for (int i = c->n_x - 1; i > 0; i--)
        if (c->x[i].grad && !mf_same_rows(&c->x[i], &c->y))
            rc = MF_THEN(rc, mf_fold(k, &c->x[i], c->x[i].grad, N, N,
                                     [=] __device__(int row, int j) { return grad[(size_t)row * N + j]; }));
    return rc;
}

/* A product of backward, by cublasLt where that is asked for and able. */
static cudaError_t product_back(const struct mf_kernel_call *k, const struct mf_product *p, bool lt)
{
    struct chunks c = chunks_of(k);
    cudaError_t rc;
    if (lt && mf_lt_product(p, k->precision, k->call.work + c.live + c.sums, k->stream, &rc))
        return rc;
    return mf_product(p, k->precision, k->stream);
}

static cudaError_t x_back(const struct mf_kernel_call *k)
{
    const struct mf_call *c = &k->call;
    const struct mf_linear_how *how = how_of(c);
    struct mf_product p = {};
    p.M = mf_tile_rows(&c->y, k->n), p.N = c->x[0].cols, p.K = c->y.cols, p.batch = 1;
    p.A = c->y.grad, p.lda = p.K;
    p.B = c->W + how->from, p.ldb = c->ldw, p.B_transposed = how->transposed;
    p.C = c->x[0].grad, p.ldc = p.N, p.add = c->x[0].add;
    return product_back(k, &p, mf_lt_on());
}

/* Rows of x whose gradient is 0 may hold NaN, and cublasLt multiplies them. */
static cudaError_t scrub(const struct mf_kernel_call *k)
{
    const unsigned char *live = (const unsigned char *)k->call.work;
    float *x = k->call.x[0].data;
    int K = k->call.x[0].cols;
    return mf_cells(k->stream, mf_tile_rows(&k->call.y, k->n), K, [=] __device__(int i, int j) {
        float *at = x + (size_t)i * K + j;
        if (!live[i] && !isfinite(*at))
            *at = 0.0f;
    });
}

static cudaError_t W_back(const struct mf_kernel_call *k)
{
    const struct mf_call *c = &k->call;
    const struct mf_linear_how *how = how_of(c);
    int rows = chunks_of(k).rows, in = c->x[0].cols, out = c->y.cols;
    const float *x = c->x[0].data, *grad = c->y.grad;
    bool lt = mf_lt_on() && !c->y.shared; /* whose x another run reads again */
    struct mf_product p = {};
    p.M = how->transposed ? in : out, p.N = how->transposed ? out : in, p.K = rows, p.batch = k->lanes;
    p.A = how->transposed ? x : grad, p.lda = p.M, p.A_transposed = true, p.next_A = (size_t)rows * p.M;
    p.B = how->transposed ? grad : x, p.ldb = p.N, p.next_B = (size_t)rows * p.N;
    p.C = k->lane + c->dW + how->from, p.ldc = c->ldw, p.next_C = k->stride, p.add = !c->sets;
    p.live = (const unsigned char *)c->work;
    return MF_THEN(lt ? scrub(k) : cudaSuccess, product_back(k, &p, lt));
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    const struct mf_call *c = &k->call;
    cudaError_t rc = pass(k);
    rc = MF_THEN(rc, residuals_back(k));
    rc = c->db >= 0 ? MF_THEN(rc, b_back(k)) : rc;
    rc = c->x[0].grad ? MF_THEN(rc, x_back(k)) : rc;
    return c->dW >= 0 ? MF_THEN(rc, W_back(k)) : rc;
}

extern const struct mf_kernel mf_kernel_linear = {"linear", forward, backward, work};
