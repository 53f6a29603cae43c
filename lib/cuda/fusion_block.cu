/* fusion_block.cu - what lies between two products of a transformer's block: gate and norm, norm and modulate, or all
 * three. Forward, a row goes from one to the next in shared memory. Backward, each element of a gradient goes on as it
 * is computed; gradients of weights, and of modulations that serve several samples, have launches of their own.
 */
#include <vector>

#include "cuda/block.h"
#include "cuda/fusion.h"

extern const struct mf_kernel mf_kernel_gate, mf_kernel_norm, mf_kernel_modulate;

enum { AHEAD = 4, COLS = 8192 /* there is room for */ };

struct joined {
    struct mf_gating gate;
    struct mf_norm_call norm;
    struct mf_modulation modulate;
};

/* Each thread has the same columns in all three. */
template <bool GATES, bool MODULATES>
__global__ void __launch_bounds__(MF_BLOCK, 4) block_forward(const struct joined a)
{
    struct mf_norm_member m = mf_norm_member_of(a.norm);
    int cols = a.norm.cols, wide = a.norm.wide, row = m.unit;
    float *held = mf_shared<float>() + MF_BLOCK / 32 + threadIdx.x / m.team * cols;
    size_t at = (size_t)row * cols;
    const float *gate = NULL, *x = NULL, *h = a.norm.x.data + at, *shift = NULL;
    if (GATES) {
        gate = a.gate.m.data + (size_t)mf_spread_row(a.gate.m_row, row) * a.gate.m.cols + a.gate.from;
        x = a.gate.x.data + at;
        h = a.gate.h.data + (size_t)mf_spread_row(a.gate.h_row, row) * cols;
    }
    if (MODULATES)
        shift = a.modulate.m.data + (size_t)mf_spread_row(a.modulate.spread, row) * a.modulate.m.cols + a.modulate.from;
    for (int first = m.col; first < cols; first += AHEAD * wide) {
        float of_h[AHEAD], of_x[AHEAD], by[AHEAD];
#pragma unroll
        for (int v = 0; v < AHEAD; v++) {
            int j = first + v * wide;
            if (j < cols) {
                of_h[v] = h[j];
                if (GATES)
                    of_x[v] = x[j], by[v] = gate[j];
            }
        }
#pragma unroll
        for (int v = 0; v < AHEAD; v++) {
            int j = first + v * wide;
            if (j < cols) {
                float y = GATES ? mf_gated(of_h[v], by[v], of_x[v]) : of_h[v];
                held[j] = y;
                if (GATES && m.real)
                    a.gate.y.data[at + j] = y;
            }
        }
    }
    mf_norm_forward(
        a.norm, m, [=](int, int j) { return held[j]; },
        [=](int, int j, float y) {
            a.norm.y.data[at + j] = y;
            if (MODULATES) {
                float z = mf_modulated(y, __ldg(shift + cols + j), __ldg(shift + j));
                if (a.modulate.bf16)
                    mf_put_bf16<1>(a.modulate.y.data, at + j, {z});
                else
                    a.modulate.y.data[at + j] = z;
            }
        });
}

/* The first operand of `next` is the result of k, row by row. */
static bool follows(const struct mf_call *next, const struct mf_call *k)
{
    const struct mf_tensor *x = &next->x[0], *y = &k->y;
    return x->data == y->data && mf_same_rows(x, y) && mf_same_rows(x, &next->y) && x->cols == y->cols &&
           next->y.cols == y->cols && y->heads <= 1 && next->y.heads <= 1;
}

static bool by_rows(const struct mf_call *norm)
{
    const struct mf_norm_how *how = (const struct mf_norm_how *)norm->how;
    return how->heads == 1 && how->rows == 1 && how->from == 0 && norm->x[0].cols == norm->y.cols &&
           norm->x[0].heads <= 1 && norm->y.heads <= 1 && norm->y.cols <= COLS;
}

static int takes(const struct mf_kernel *const *kernel, const struct mf_kernel_call *k, int n, int)
{
    int norm = n > 0 && kernel[0] == &mf_kernel_gate;
    if (norm >= n || kernel[norm] != &mf_kernel_norm || !by_rows(&k[norm].call) ||
        (norm && !follows(&k[1].call, &k[0].call)))
        return 0;
    int next = norm + 1;
    bool modulates = next < n && kernel[next] == &mf_kernel_modulate && follows(&k[next].call, &k[norm].call);
    return next + modulates;
}

static cudaError_t forward(const struct mf_kernel *const *kernel, const struct mf_kernel_call *k, int n)
{
    bool gates = kernel[0] == &mf_kernel_gate, modulates = kernel[n - 1] == &mf_kernel_modulate;
    struct joined a = {};
    a.norm = mf_norm_of(&k[gates]);
    if (gates)
        a.gate = mf_gating_of(&k[0]);
    if (modulates)
        a.modulate = mf_modulation_of(&k[n - 1]);
    int teams = MF_BLOCK / (a.norm.wide * a.norm.tall);
    size_t room = (MF_BLOCK / 32 + (size_t)teams * a.norm.cols) * sizeof(float);
    void (*form)(struct joined) = !modulates ? block_forward<true, false>
                                  : gates    ? block_forward<true, true>
                                             : block_forward<false, true>;
    return mf_launch(k->stream, dim3((a.norm.units + teams - 1) / teams), dim3(MF_BLOCK), room, form, a);
}

/* ---- backward ---- */

struct joined_back {
    struct mf_gating gate;
    struct mf_norm_call norm;
    struct mf_modulation modulate;
    bool gates, modulates;
    bool keeps; /* the gradient between norm and gate has another reader */
    int own;    /* rows of a block: those of one row of a modulation whose gradient it computes */
};

/* Of row t of m, in the order of the rows that read it. */
__device__ __forceinline__ void to_modulation(const struct mf_modulation &a, int t)
{
    float *to = a.m.grad + (size_t)t * a.m.cols + a.from;
    for (int j = threadIdx.x; j < a.cols; j += MF_BLOCK) {
        float shift = 0.0f, scale = 0.0f;
        mf_rows_in_order<1>(a.y.grad, a.x.data, (size_t)t * a.span * a.cols + j, a.span, a.cols,
                            [&](size_t, const mf_pack<1> &g, const mf_pack<1> &x) {
                                shift += g.of[0];
                                scale = mf_term_back(scale, g.of[0], x.of[0]);
                            });
        to[j] = a.m.add ? shift + to[j] : shift;
        to[a.cols + j] = a.m.add ? scale + to[a.cols + j] : scale;
        if (!a.m.add)
            mf_zero_others<1>(a.m, t, a.from, 2 * a.cols, j, a.cols);
    }
}

__device__ __forceinline__ void to_gate(const struct mf_gating &a, int t)
{
    float *to = a.m.grad + (size_t)t * a.m.cols + a.from;
    for (int j = threadIdx.x; j < a.cols; j += MF_BLOCK) {
        float sum = 0.0f;
        mf_rows_in_order<1>(
            a.y.grad, a.x.data, (size_t)t * a.span * a.cols + j, a.span, a.cols,
            [&](size_t, const mf_pack<1> &g, const mf_pack<1> &x) { sum = mf_term_back(sum, g.of[0], x.of[0]); });
        to[j] = a.m.add ? sum + to[j] : sum;
        if (!a.m.add)
            mf_zero_others<1>(a.m, t, a.from, a.cols, j, a.cols);
    }
}

/* A thread reads an element of a gradient before it writes that element of another, which may have its place. */
__device__ __forceinline__ void to_rows(const struct joined_back &a, const struct mf_norm_member &m)
{
    int cols = a.norm.cols, wide = a.norm.wide;
    size_t at = (size_t)m.unit * cols;
    const float *g = a.modulates ? a.modulate.y.grad : a.norm.y.grad, *W = a.norm.W, *scale = NULL, *gate = NULL;
    if (a.modulates)
        scale = a.modulate.m.data + (size_t)mf_spread_row(a.modulate.spread, m.unit) * a.modulate.m.cols +
                a.modulate.from + cols;
    if (a.gate.dx)
        gate = a.gate.m.data + (size_t)mf_spread_row(a.gate.m_row, m.unit) * a.gate.m.cols + a.gate.from;
    /* 0 + : as modulate adds to nothing, which has no -0 */
    auto of_y = [&](int, int j) { return scale ? 0.0f + mf_modulated_back(g[at + j], __ldg(scale + j)) : g[at + j]; };
    auto of_x = [&](int, int j) { return a.norm.x.data[at + j]; };
    struct mf_norm_pull pull = mf_norm_pull_of(a.norm, m, of_y, of_x);
    if (!m.real)
        return;
    for (int first = m.col; first < cols; first += AHEAD * wide) {
        float d[AHEAD], x[AHEAD], old[AHEAD], old_x[AHEAD], old_h[AHEAD];
#pragma unroll
        for (int v = 0; v < AHEAD; v++) {
            int j = first + v * wide;
            if (j < cols) {
                d[v] = of_y(0, j), x[v] = of_x(0, j);
                old[v] = a.norm.x.add ? a.norm.x.grad[at + j] : 0.0f;
                old_x[v] = gate && a.gate.x.add ? a.gate.x.grad[at + j] : 0.0f;
                old_h[v] = a.gate.dh && a.gate.h.add ? a.gate.h.grad[at + j] : 0.0f;
            }
        }
#pragma unroll
        for (int v = 0; v < AHEAD; v++) {
            int j = first + v * wide;
            if (j < cols) {
                float y = mf_norm_back(pull, d[v], W ? W + j : NULL, x[v]);
                y = a.norm.x.add ? old[v] + y : y;
                if (a.keeps)
                    a.norm.x.grad[at + j] = y;
                if (gate)
                    a.gate.x.grad[at + j] = old_x[v] + mf_gated_back(y, __ldg(gate + j));
                if (a.gate.dh)
                    a.gate.h.grad[at + j] = old_h[v] + y;
            }
        }
    }
}

__global__ void __launch_bounds__(MF_BLOCK, 3) block_backward(const struct joined_back a)
{
    struct mf_norm_member m = mf_norm_member_of(a.norm);
    int teams = MF_BLOCK / m.team, first = blockIdx.x * a.own, end = min(first + a.own, a.norm.units);
    if (a.modulate.dm) {
        to_modulation(a.modulate, blockIdx.x);
        __syncthreads(); /* its rows of gradients may now be overwritten */
    }
    for (int row = first; row < end; row += teams) {
        m.unit = row + (int)threadIdx.x / m.team;
        m.real = m.unit < end;
        m.unit = m.real ? m.unit : end - 1;
        to_rows(a, m);
    }
    if (a.gate.dm) {
        __syncthreads(); /* all its rows are there */
        to_gate(a.gate, blockIdx.x);
    }
}

static struct joined_back joined_back_of(const struct mf_kernel *const *kernel, const struct mf_kernel_call *k, int n)
{
    struct joined_back a = {};
    a.modulates = kernel[0] == &mf_kernel_modulate, a.gates = kernel[n - 1] == &mf_kernel_gate;
    a.norm = mf_norm_of(&k[a.modulates]);
    a.own = MF_BLOCK / (a.norm.wide * a.norm.tall);
    a.keeps = true;
    if (a.gates) {
        a.gate = mf_gating_of(&k[n - 1]);
        a.gate.dx = a.gate.x.grad, a.gate.dh = a.gate.h.grad;
        a.gate.dm = a.gate.m.grad && !mf_over_samples(&a.gate.m, &a.gate.y);
        a.keeps = a.gate.m.grad;
        a.own = a.gate.dm ? a.gate.span : a.own;
    }
    if (a.modulates) {
        a.modulate = mf_modulation_of(&k[0]);
        a.modulate.dm = a.modulate.m.grad && !mf_over_samples(&a.modulate.m, &a.modulate.y);
        a.own = a.modulate.dm ? a.modulate.span : a.own;
    }
    return a;
}

/* What it writes is apart from what other threads read, and from each other. */
static bool in_nobodys_way(const struct joined_back &a, int n)
{
    std::vector<mf_extent> rows, others, written;
    auto is_written = [&](bool wanted, const struct mf_tensor &t) {
        if (wanted)
            written.push_back(mf_extent_of(t.grad, &t, n));
    };
    const struct mf_tensor &first = a.modulates ? a.modulate.y : a.norm.y;
    rows = {mf_extent_of(first.grad, &first, n), mf_extent_of(a.norm.x.data, &a.norm.x, n)};
    others = {{a.norm.aux, 2 * (size_t)mf_tile_rows(&a.norm.y, n), NULL}};
    is_written(a.keeps, a.norm.x);
    if (a.modulates) {
        others.push_back(mf_extent_of(a.modulate.m.data, &a.modulate.m, n));
        rows.push_back(mf_extent_of(a.modulate.dm ? a.modulate.x.data : NULL, &a.modulate.x, n));
        is_written(a.modulate.dm, a.modulate.m);
    }
    if (a.gates) {
        others.push_back(mf_extent_of(a.gate.m.data, &a.gate.m, n));
        others.push_back(mf_extent_of(a.gate.m.grad ? a.gate.x.data : NULL, &a.gate.x, n));
        is_written(a.gate.dx, a.gate.x);
        is_written(a.gate.dh, a.gate.h);
        is_written(a.gate.dm && !(a.modulate.dm && a.gate.m.grad == a.modulate.m.grad), a.gate.m);
    }
    bool good = true;
    for (size_t i = 0; i < written.size(); i++) {
        for (const mf_extent &r : rows)
            good = good && (mf_apart(written[i], r) || mf_same_place(written[i], r));
        for (const mf_extent &o : others)
            good = good && mf_apart(written[i], o);
        for (size_t j = 0; j < i; j++)
            good = good && mf_apart(written[i], written[j]);
    }
    return good;
}

/* Modulate is the only reader of the norm's result, whose gradient then stays within the launch. */
static bool passes_on(const struct mf_call *modulate, const struct mf_call *norm)
{
    return modulate->x[0].grad && !modulate->x[0].add && modulate->x[1].grad != modulate->x[0].grad && norm->dW < 0 &&
           norm->db < 0 && follows(modulate, norm);
}

static int takes_back(const struct mf_kernel *const *kernel, const struct mf_kernel_call *k, int n, int samples)
{
    int norm = n > 0 && kernel[0] == &mf_kernel_modulate;
    if (norm >= n || kernel[norm] != &mf_kernel_norm || !by_rows(&k[norm].call) || !k[norm].call.x[0].grad ||
        (norm && !passes_on(&k[0].call, &k[1].call)))
        return 0;
    int calls = norm + 1;
    if (calls < n && kernel[calls] == &mf_kernel_gate && follows(&k[norm].call, &k[calls].call)) {
        struct joined_back a = joined_back_of(kernel, k, calls + 1);
        if (mf_same_rows(&a.gate.h, &a.gate.y) && !(a.modulate.dm && a.gate.dm && a.modulate.span != a.gate.span) &&
            in_nobodys_way(a, samples))
            return calls + 1;
    }
    return norm && in_nobodys_way(joined_back_of(kernel, k, calls), samples) ? calls : 0;
}

static cudaError_t backward(const struct mf_kernel *const *kernel, const struct mf_kernel_call *k, int n)
{
    struct joined_back a = joined_back_of(kernel, k, n);
    cudaError_t rc = cudaSuccess;
    if (a.modulates && a.modulate.m.grad && !a.modulate.dm)
        rc = mf_modulate_fold(&k[0]);
    rc = MF_THEN(rc, mf_norm_weights(&k[a.modulates]));
    rc = MF_THEN(rc, mf_launch(k->stream, dim3((a.norm.units + a.own - 1) / a.own), dim3(MF_BLOCK),
                               MF_BLOCK / 32 * sizeof(float), block_backward, a));
    return a.gates && a.gate.m.grad && !a.gate.dm ? MF_THEN(rc, mf_gate_fold(&k[n - 1])) : rc;
}

extern const struct mf_fusion mf_fusion_block = {takes, forward, takes_back, backward};
