/* block.h - the calls between the products of a transformer's block: gate, norm, modulate. Their kernels and the fusion
 * of them compute an element by the same functions, in the same order. Where a gradient is 0, backward uses no other
 * number of its place.
 */
#ifndef MF_CUDA_BLOCK_H
#define MF_CUDA_BLOCK_H

#include "cuda/launch.h"

extern "C" {
#include "op/how.h"
}

/* ---- backward to a modulation m, which serves `span` rows of y with each of its rows ---- */

/* each(at, g, x) for V columns of these rows, in order: g is the gradient there, x the data (NULL: undefined). Some
 * rows are loaded at once. */
template <int V, class F>
__device__ __forceinline__ void mf_rows_in_order(const float *grad, const float *data, size_t at, int span, int cols,
                                                 F each)
{
    constexpr int AHEAD = 4;
    for (int first = 0; first < span; first += AHEAD) {
        mf_pack<V> g[AHEAD], x[AHEAD];
#pragma unroll
        for (int r = 0; r < AHEAD; r++)
            if (first + r < span) {
                g[r] = *(const mf_pack<V> *)(grad + at + r * cols);
                if (data)
                    x[r] = *(const mf_pack<V> *)(data + at + r * cols);
            }
#pragma unroll
        for (int r = 0; r < AHEAD; r++)
            if (first + r < span)
                each(at + r * cols, g[r], x[r]);
        at += AHEAD * cols;
    }
}

/* m serves several samples: its gradient is a sum over them, for which there is a launch. */
static inline bool mf_over_samples(const struct mf_tensor *m, const struct mf_tensor *y)
{
    return m->shared && !y->shared;
}

cudaError_t mf_modulate_fold(const struct mf_kernel_call *k);
cudaError_t mf_gate_fold(const struct mf_kernel_call *k);

/* A further term of a sum over rows. */
__device__ __forceinline__ float mf_term_back(float sum, float g, float x)
{
    return g == 0.0f ? sum : fmaf(g, x, sum);
}

/* A call that sets the gradient of row t of m zeroes what it does not read of it: all but `own` columns from `from`. */
template <int V>
__device__ __forceinline__ void mf_zero_others(const struct mf_tensor &m, int t, int from, int own, int pack, int packs)
{
    for (int j = pack * V; j < m.cols - own; j += packs * V)
        *(mf_pack<V> *)(m.grad + (size_t)t * m.cols + (j < from ? j : j + own)) = {};
}

/* ---- gate: h + gate x ---- */

struct mf_gating { /* a call */
    struct mf_tensor h, x, m, y;
    int from, cols;
    int rows, span; /* of y; of y for one of m, where m is not shared */
    struct mf_spreading m_row, h_row;
    bool dh, dx, dm; /* the gradients to compute */
};

static inline struct mf_gating mf_gating_of(const struct mf_kernel_call *k)
{
    const struct mf_call *c = &k->call;
    struct mf_gating a = {};
    a.h = c->x[0];
    a.x = c->x[1];
    a.m = c->x[2];
    a.y = c->y;
    a.from = *(const int *)c->how;
    a.cols = c->y.cols;
    a.rows = mf_tile_rows(&c->y, k->n);
    a.span = c->y.rows / c->x[2].rows;
    a.m_row = mf_spread_of(&c->x[2], &c->y);
    a.h_row = mf_spread_of(&c->x[0], &c->y);
    return a;
}

/* An element of the result. */
__device__ __forceinline__ float mf_gated(float h, float gate, float x)
{
    return fmaf(gate, x, h);
}

/* The gradient of an element of x; that of h is g. */
__device__ __forceinline__ float mf_gated_back(float g, float gate)
{
    return g == 0.0f ? 0.0f : g * gate;
}

/* ---- modulate: x (1 + scale) + shift ---- */

struct mf_modulation { /* a call */
    struct mf_tensor x, m, y;
    int from, cols;
    int rows, span; /* of y; of y for one of m, where m is not shared */
    struct mf_spreading spread;
    bool dx, dm; /* the gradients to compute */
    bool bf16;   /* y is stored so */
};

static inline struct mf_modulation mf_modulation_of(const struct mf_kernel_call *k)
{
    const struct mf_call *c = &k->call;
    struct mf_modulation a = {};
    a.x = c->x[0];
    a.m = c->x[1];
    a.y = c->y;
    a.from = *(const int *)c->how;
    a.cols = c->y.cols;
    a.rows = mf_tile_rows(&c->y, k->n);
    a.span = c->y.rows / c->x[1].rows;
    a.spread = mf_spread_of(&c->x[1], &c->y);
    a.bf16 = k->y_bf16;
    return a;
}

/* An element of the result. */
__device__ __forceinline__ float mf_modulated(float x, float scale, float shift)
{
    return fmaf(x, 1.0f + scale, shift);
}

/* The gradient of an element of x. */
__device__ __forceinline__ float mf_modulated_back(float g, float scale)
{
    return g == 0.0f ? 0.0f : g * (1.0f + scale);
}

/* ---- norm: a team of threads takes a head of a block of rows ---- */

struct mf_norm_call { /* a call */
    struct mf_tensor x, y;
    struct mf_norm_how how;
    const float *W, *b;
    float *aux;
    int n, rows, cols, step; /* rows and columns of a head of a block */
    int units;               /* heads of blocks of all samples */
    int wide, tall;          /* a team's threads, along columns and rows: powers of two, by shapes */
};

static inline int mf_power_above(int x)
{
    int p = 1;
    while (p < x)
        p *= 2;
    return p;
}

static inline struct mf_norm_call mf_norm_of(const struct mf_kernel_call *k)
{
    const struct mf_call *c = &k->call;
    struct mf_norm_call a = {};
    a.x = c->x[0];
    a.y = c->y;
    a.how = *(const struct mf_norm_how *)c->how;
    a.W = c->W;
    a.b = c->b;
    a.aux = c->aux;
    a.n = k->n;
    a.rows = mf_norm_rows(c);
    a.cols = c->y.cols / a.how.heads;
    a.step = mf_norm_step(c);
    a.units = mf_tile_rows(&c->y, k->n) / a.rows * a.how.heads;
    a.wide = a.cols > 1024 ? MF_BLOCK : a.cols < 32 ? mf_power_above(a.cols) : 32;
    a.tall = mf_power_below(a.rows);
    a.tall = a.tall < MF_BLOCK / a.wide ? a.tall : MF_BLOCK / a.wide;
    return a;
}

struct mf_norm_member { /* a thread of a team, and the team's head */
    int row, col, team;
    bool real; /* a team beyond the last head repeats that, and writes nothing: shuffles need whole warps */
    int unit, head;
    size_t first; /* row */
};

__device__ __forceinline__ struct mf_norm_member mf_norm_member_of(const struct mf_norm_call &a)
{
    struct mf_norm_member m;
    m.team = a.wide * a.tall;
    int at = threadIdx.x & (m.team - 1);
    m.col = at & (a.wide - 1);
    m.row = at / a.wide;
    m.unit = blockIdx.x * (blockDim.x / m.team) + threadIdx.x / m.team;
    m.real = m.unit < a.units;
    m.unit = m.real ? m.unit : a.units - 1;
    m.head = m.unit % a.how.heads;
    m.first = (size_t)(m.unit / a.how.heads) * a.rows;
    return m;
}

/* The same bits in all threads of the team. */
__device__ __forceinline__ float mf_team_sum(int team, float x)
{
    for (int by = (team < 32 ? team : 32) / 2; by; by /= 2)
        x += __shfl_xor_sync(~0u, x, by);
    if (team > 32) {
        float *sums = mf_shared<float>();
        __syncthreads();
        if (threadIdx.x % 32 == 0)
            sums[threadIdx.x / 32] = x;
        __syncthreads();
        x = 0.0f;
        for (int i = 0; i < team / 32; i++)
            x += sums[i];
    }
    return x;
}

/* f(row, col) for the elements of a thread. */
template <class F>
__device__ __forceinline__ void mf_norm_elements(const struct mf_norm_call &a, const struct mf_norm_member &m, F f)
{
    for (int r = m.row; r < a.rows; r += a.tall)
#pragma unroll 4
        for (int j = m.col; j < a.cols; j += a.wide)
            f(r, j);
}

static inline __host__ __device__ float mf_norm_count(const struct mf_norm_call &a)
{
    return (float)(a.rows * a.cols - (a.how.norm == MF_NORM_RMS_LEGACY ? 1 : 0));
}

/* Normalizes the block of member m: x(row, col) and put(row, col, y) are called by the thread that has the element, x
 * three times before put. */
template <class X, class Y>
__device__ __forceinline__ void mf_norm_forward(const struct mf_norm_call &a, const struct mf_norm_member &m, X x,
                                                Y put)
{
    int own = m.head * a.step;
    float mean = 0.0f, square = 0.0f;
    if (a.how.norm != MF_NORM_RMS) {
        mf_norm_elements(a, m, [&](int r, int j) { mean += x(r, j); });
        mean = mf_team_sum(m.team, mean) / (float)(a.rows * a.cols);
    }
    mf_norm_elements(a, m, [&](int r, int j) {
        float u = x(r, j) - mean;
        square = fmaf(u, u, square);
    });
    float factor = 1.0f / sqrtf(mf_team_sum(m.team, square) / mf_norm_count(a) + a.how.eps);
    if (!m.real)
        return;
    float less = a.how.norm == MF_NORM_LAYER ? mean : 0.0f;
    mf_norm_elements(a, m, [&](int r, int j) {
        float unit = (x(r, j) - less) * factor;
        put(r, j, (a.W ? a.W[own + j] * unit : unit) + (a.b ? a.b[own + j] : 0.0f));
    });
    if (a.aux && m.row == 0 && m.col == 0) {
        a.aux[2 * (size_t)m.unit] = mean;
        a.aux[2 * (size_t)m.unit + 1] = factor;
    }
}

/* What the gradients of x have in common in a block. */
struct mf_norm_pull {
    float mean, factor, level, pull;
    bool none; /* all gradients of y are 0, and what the block holds (NaN) is not used */
};

/* As back_to_x of op_norm.c, of the block of member m: d(row, col) is the gradient of y, x(row, col) the data. */
template <class D, class X>
__device__ __forceinline__ struct mf_norm_pull mf_norm_pull_of(const struct mf_norm_call &a,
                                                               const struct mf_norm_member &m, D d, X x)
{
    bool layer = a.how.norm == MF_NORM_LAYER;
    int own = m.head * a.step;
    float sum = 0.0f, level = 0.0f;
    struct mf_norm_pull p = {a.aux[2 * (size_t)m.unit], a.aux[2 * (size_t)m.unit + 1]};
    float less = layer ? p.mean : 0.0f, f = p.factor;
    mf_norm_elements(a, m, [&](int r, int j) {
        float of_y = d(r, j), u = x(r, j) - less, g = a.W ? of_y * a.W[own + j] : of_y;
        sum = of_y == 0.0f ? sum : fmaf(g, u, sum);
        level = of_y == 0.0f ? level : level + g;
    });
    sum = mf_team_sum(m.team, sum);
    p.level = layer ? mf_team_sum(m.team, level) / (float)(a.rows * a.cols) : 0.0f;
    p.none = sum == 0.0f && p.level == 0.0f;
    p.pull = f * f * f * sum / mf_norm_count(a);
    return p;
}

/* The gradient of an element of x: d that of y, by the weight or NULL. */
__device__ __forceinline__ float mf_norm_back(const struct mf_norm_pull &p, float d, const float *weight, float x)
{
    float g = weight ? d * *weight : d;
    return p.none && d == 0.0f ? 0.0f : fmaf(-p.pull, x - p.mean, p.factor * (g - p.level));
}

/* The gradients of the weights, where they are trained. */
cudaError_t mf_norm_weights(const struct mf_kernel_call *k);

#endif
