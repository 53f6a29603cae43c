/* kernel_linear.cu - products with a weight, plus bias and residuals: forward one product; backward a pass over y.grad,
 * then a product for x, and one per lane for W, which gives the gradient of the bias, too. Rows without a gradient have
 * no part in W's: the product for x finds them, or else the pass.
 */
#include "cuda/launch.h"
#include "cuda/linear.h"
#include "dev/act.h"

#include <lt.h>

struct mf_product mf_linear_product(const struct mf_kernel_call *k)
{
    const struct mf_call *c = &k->call;
    const struct mf_linear_how *how = mf_linear_how_of(c);
    struct mf_product p = {};
    p.M = mf_tile_rows(&c->y, k->n), p.N = c->y.cols, p.K = c->x[0].cols, p.batch = 1;
    p.A = c->x[0].data, p.lda = p.K;
    p.B = c->W + how->from, p.ldb = c->ldw, p.B_transposed = !how->transposed;
    p.C = c->y.data, p.ldc = p.N;
    p.b = c->b, p.sum = c, p.act = how->act, p.slope = c->aux;
    p.A_bf16 = k->x_bf16, p.C_bf16 = k->y_bf16;
    return p;
}

cudaError_t mf_linear_forward(const struct mf_kernel_call *k, const struct mf_kernel_call *sum)
{
    struct mf_product p = mf_linear_product(k);
    if (sum) {
        const struct mf_call *c = &sum->call;
        p.before = p.C, p.C = c->y.data, p.act = *(const enum mf_act *)c->how, p.slope = c->aux;
        p.C_bf16 = sum->y_bf16;
    }
    return mf_product(&p, k->precision, k->stream);
}

static cudaError_t forward(const struct mf_kernel_call *k)
{
    return mf_linear_forward(k, NULL);
}

/* ---- the pass over y.grad: a block has CHUNK rows, each thread some columns of them ---- */

enum { CHUNK = 16, THREADS = 128 };

static int rows_of_lane(const struct mf_kernel_call *k)
{
    return mf_tile_rows(&k->call.y, k->n) / k->lanes;
}

/* Floats of scratch for a byte of each row; what follows is aligned. */
static size_t live_floats(const struct mf_kernel_call *k)
{
    return ((size_t)mf_tile_rows(&k->call.y, k->n) + 255) / 256 * 64;
}

static size_t work(const struct mf_kernel_call *k, bool backward)
{
    return backward ? live_floats(k) + (mf_lt_on() ? MF_LT_WORK : 0) : 0;
}

struct back_pass {
    int rows, N;
    enum mf_act act;
    float *grad;
    const float *from; /* what the derivative is computed from: y, or aux where it was kept; NULL: it is 1 */
    bool from_bf16;    /* y is stored so */
    struct {           /* operands of the same rows, from the last; grad NULL: none */
        float *grad;
        bool add;
    } same[2];
    unsigned char *live; /* (rows): the row has a gradient that is not 0; or NULL */
};

/* V columns at once. */
template <int V> __global__ void __launch_bounds__(THREADS, 8) pass_back(const struct back_pass p)
{
    typedef mf_pack<V> pack;
    unsigned *of_warp = mf_shared<unsigned>(), any = 0; /* bit r: row r of the chunk */
    int from = blockIdx.x * CHUNK, rows = min(CHUNK, p.rows - from), N = p.N;
    size_t first = (size_t)from * N;
    for (int col = threadIdx.x * V; col < N; col += THREADS * V) {
#pragma unroll 4
        for (int r = 0; r < rows; r++) {
            size_t at = first + (size_t)(r * N + col);
            pack g = *reinterpret_cast<const pack *>(p.grad + at), slope = {};
            if (p.from)
                slope = p.from_bf16 ? mf_get_bf16<V>(p.from, at) : *reinterpret_cast<const pack *>(p.from + at);
#pragma unroll
            for (int e = 0; e < V; e++) {
                g.of[e] = mf_act_back(p.act, g.of[e], slope.of[e], slope.of[e]);
                any |= (g.of[e] != 0.0f ? 1u : 0u) << r;
            }
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
        p.live[from + threadIdx.x] = any >> threadIdx.x & 1;
    }
}

/* The product for x reads all of y.grad, and finds its rows without a gradient. */
static bool found_by_x(const struct mf_kernel_call *k)
{
    return k->call.x[0].grad && !mf_lt_on();
}

cudaError_t mf_linear_pass(const struct mf_kernel_call *k, bool live)
{
    const struct mf_call *c = &k->call;
    struct back_pass p = {};
    int N = c->y.cols;
    p.rows = mf_tile_rows(&c->y, k->n), p.N = N, p.act = mf_linear_how_of(c)->act;
    p.grad = c->y.grad, p.from = p.act == MF_ACT_NONE ? NULL : mf_act_keeps(p.act) ? c->aux : c->y.data;
    p.from_bf16 = k->y_bf16 && p.from == c->y.data;
    bool fours = mf_by_fours(p.grad, N) && mf_by_fours(p.from, N);
    for (int i = c->n_x - 1, n = 0; i > 0; i--)
        if (c->x[i].grad && mf_same_rows(&c->x[i], &c->y)) {
            p.same[n].grad = c->x[i].grad, p.same[n++].add = c->x[i].add;
            fours = fours && mf_by_fours(c->x[i].grad, N);
        }
    if (live && !found_by_x(k))
        p.live = (unsigned char *)c->work;
    if (p.act == MF_ACT_NONE && !p.same[0].grad && !p.live)
        return cudaSuccess;
    return mf_launch(k->stream, dim3((p.rows + CHUNK - 1) / CHUNK), dim3(THREADS), THREADS / 32 * sizeof(unsigned),
                     fours ? pass_back<4> : pass_back<1>, p);
}

/* ---- what follows ---- */

/* The gradient of b where no product gives it, in the order of that. */
static cudaError_t b_back(const struct mf_kernel_call *k)
{
    int rows = rows_of_lane(k), N = k->call.y.cols;
    float *to = k->lane + k->call.db;
    const float *grad = k->call.y.grad;
    size_t stride = k->stride;
    return mf_cells(k->stream, k->lanes, N, [=] __device__(int lane, int j) {
        const float *g = grad + (size_t)lane * rows * N + j;
        float sum = 0.0f;
#pragma unroll 8
        for (int r = 0; r < rows; r++)
            sum += g[(size_t)r * N];
        to[lane * stride + j] += sum;
    });
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
    cudaError_t rc;
    if (lt && mf_lt_product(p, k->precision, k->call.work + live_floats(k), k->stream, &rc))
        return rc;
    return mf_product(p, k->precision, k->stream);
}

static cudaError_t x_back(const struct mf_kernel_call *k, bool live, const struct mf_onward *on)
{
    const struct mf_call *c = &k->call;
    const struct mf_linear_how *how = mf_linear_how_of(c);
    struct mf_product p = {};
    p.M = mf_tile_rows(&c->y, k->n), p.N = c->x[0].cols, p.K = c->y.cols, p.batch = 1;
    p.A = c->y.grad, p.lda = p.K;
    p.B = c->W + how->from, p.ldb = c->ldw, p.B_transposed = how->transposed;
    p.C = c->x[0].grad, p.ldc = p.N, p.add = c->x[0].add;
    p.found = live && found_by_x(k) ? (unsigned char *)c->work : NULL;
    if (on)
        p.on = *on;
    return product_back(k, &p, mf_lt_on() && !on);
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

static cudaError_t W_back(const struct mf_kernel_call *k, bool lt)
{
    const struct mf_call *c = &k->call;
    const struct mf_linear_how *how = mf_linear_how_of(c);
    int rows = rows_of_lane(k), in = c->x[0].cols, out = c->y.cols;
    const float *x = c->x[0].data, *grad = c->y.grad;
    struct mf_product p = {};
    p.M = how->transposed ? in : out, p.N = how->transposed ? out : in, p.K = rows, p.batch = k->lanes;
    p.A = how->transposed ? x : grad, p.lda = p.M, p.A_transposed = true, p.next_A = (size_t)rows * p.M;
    p.B = how->transposed ? grad : x, p.ldb = p.N, p.next_B = (size_t)rows * p.N;
    p.C = k->lane + c->dW + how->from, p.ldc = c->ldw, p.next_C = k->stride, p.add = !c->sets;
    p.live = (const unsigned char *)c->work, p.B_bf16 = k->x_bf16;
    if (c->db >= 0 && !lt)
        p.sums = k->lane + c->db, p.next_sums = k->stride;
    return MF_THEN(lt ? scrub(k) : cudaSuccess, product_back(k, &p, lt));
}

cudaError_t mf_linear_rest(const struct mf_kernel_call *k, bool live, const struct mf_onward *on)
{
    const struct mf_call *c = &k->call;
    bool lt = mf_lt_on() && !c->y.shared; /* a shared x is read again by another run, and may not be scrubbed */
    cudaError_t rc = residuals_back(k);
    if (c->db >= 0 && (lt || c->dW < 0))
        rc = MF_THEN(rc, b_back(k));
    rc = c->x[0].grad ? MF_THEN(rc, x_back(k, live, on)) : rc;
    return c->dW >= 0 ? MF_THEN(rc, W_back(k, lt)) : rc;
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    bool live = k->call.dW >= 0;
    cudaError_t rc = mf_linear_pass(k, live);
    return MF_THEN(rc, mf_linear_rest(k, live, NULL));
}

static bool stores_bf16(const struct mf_call *c)
{
    return mf_linear_how_of(c)->act != MF_ACT_TANH;
}

extern const struct mf_kernel mf_kernel_linear = {"linear", forward, backward, work, stores_bf16};
