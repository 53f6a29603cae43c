/* kernel_gate.cu - gated additions: h + gate x. */
#include "cuda/block.h"

template <int V> static cudaError_t forward_by(const struct mf_kernel_call *k, const struct mf_gating &a)
{
    return mf_cells(k->stream, a.rows, a.cols / V, [=] __device__(int row, int pack) {
        size_t at = (size_t)row * a.cols + pack * V, of_h = (size_t)mf_spread_row(a.h_row, row) * a.cols + pack * V,
               of_m = (size_t)mf_spread_row(a.m_row, row) * a.m.cols + a.from + pack * V;
        mf_pack<V> h = *(const mf_pack<V> *)(a.h.data + of_h), x = *(const mf_pack<V> *)(a.x.data + at),
                   gate = *(const mf_pack<V> *)(a.m.data + of_m);
        for (int v = 0; v < V; v++)
            h.of[v] = mf_gated(h.of[v], gate.of[v], x.of[v]);
        *(mf_pack<V> *)(a.y.data + at) = h;
    });
}

/* The gradients of x, then of h, which may be one tensor. */
template <int V>
__device__ __forceinline__ void to_rows(const struct mf_gating &a, size_t at, const mf_pack<V> &g,
                                        const mf_pack<V> &gate)
{
    if (a.dx) {
        mf_pack<V> *p = (mf_pack<V> *)(a.x.grad + at), d = {};
        if (a.x.add)
            d = *p;
        for (int v = 0; v < V; v++)
            d.of[v] += mf_gated_back(g.of[v], gate.of[v]);
        *p = d;
    }
    if (a.dh) {
        mf_pack<V> *p = (mf_pack<V> *)(a.h.grad + at), d = {};
        if (a.h.add)
            d = *p;
        for (int v = 0; v < V; v++)
            d.of[v] += g.of[v];
        *p = d;
    }
}

/* A thread takes the rows of y that read a row of m, in order. */
template <int V> static cudaError_t backward_by(const struct mf_kernel_call *k, const struct mf_gating &a)
{
    return mf_cells(k->stream, a.rows / a.span, a.cols / V, [=] __device__(int t, int pack) {
        size_t to = (size_t)t * a.m.cols + a.from + pack * V, at = (size_t)t * a.span * a.cols + pack * V;
        mf_pack<V> gate = *(const mf_pack<V> *)(a.m.data + to), sum = {};
        mf_rows_in_order<V>(a.y.grad, a.dm ? a.x.data : NULL, at, a.span, a.cols,
                            [&](size_t row, const mf_pack<V> &g, const mf_pack<V> &x) {
                                for (int v = 0; a.dm && v < V; v++)
                                    sum.of[v] = mf_term_back(sum.of[v], g.of[v], x.of[v]);
                                to_rows(a, row, g, gate);
                            });
        if (!a.dm)
            return;
        mf_pack<V> *p = (mf_pack<V> *)(a.m.grad + to);
        for (int v = 0; a.m.add && v < V; v++)
            sum.of[v] += p->of[v];
        *p = sum;
        if (!a.m.add)
            mf_zero_others<V>(a.m, t, a.from, a.cols, pack, a.cols / V);
    });
}

template <int V> static cudaError_t to_rows_alone(const struct mf_kernel_call *k, const struct mf_gating &a)
{
    return mf_cells(k->stream, a.rows, a.cols / V, [=] __device__(int row, int pack) {
        size_t at = (size_t)row * a.cols + pack * V,
               of_m = (size_t)mf_spread_row(a.m_row, row) * a.m.cols + a.from + pack * V;
        to_rows(a, at, *(const mf_pack<V> *)(a.y.grad + at), *(const mf_pack<V> *)(a.m.data + of_m));
    });
}

cudaError_t mf_gate_fold(const struct mf_kernel_call *k)
{
    struct mf_gating a = mf_gating_of(k);
    return mf_fold(k, &a.m, a.m.grad + a.from, a.m.cols, a.cols, [=] __device__(int row, int j) {
        size_t at = (size_t)row * a.cols + j;
        float g = a.y.grad[at];
        return g == 0.0f ? 0.0f : g * a.x.data[at];
    });
}

static cudaError_t to_spread_h(const struct mf_kernel_call *k, const struct mf_gating &a)
{
    return mf_fold(k, &a.h, a.h.grad, a.cols, a.cols,
                   [=] __device__(int row, int j) { return a.y.grad[(size_t)row * a.cols + j]; });
}

static bool by_fours(const struct mf_gating &a)
{
    const struct mf_tensor *const all[] = {&a.h, &a.x, &a.m, &a.y};
    bool fours = a.from % 4 == 0;
    for (const struct mf_tensor *t : all)
        fours = fours && mf_by_fours(t->data, t->cols) && mf_by_fours(t->grad, t->cols);
    return fours;
}

static cudaError_t forward(const struct mf_kernel_call *k)
{
    struct mf_gating a = mf_gating_of(k);
    return by_fours(a) ? forward_by<4>(k, a) : forward_by<1>(k, a);
}

static cudaError_t serve(const struct mf_kernel_call *k, struct mf_gating a, bool dm, bool dx, bool dh)
{
    a.dm = dm;
    a.dx = dx;
    a.dh = dh;
    if (!dm && !dx && !dh)
        return cudaSuccess;
    if (mf_over_samples(&a.m, &a.y))
        return by_fours(a) ? to_rows_alone<4>(k, a) : to_rows_alone<1>(k, a);
    return by_fours(a) ? backward_by<4>(k, a) : backward_by<1>(k, a);
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    struct mf_gating a = mf_gating_of(k);
    bool dm = a.m.grad, first = false; /* m, where it needs a launch before the others' */
    bool same = mf_same_rows(&a.h, &a.y);
    cudaError_t rc = cudaSuccess;
    if (dm && mf_over_samples(&a.m, &a.y))
        rc = mf_gate_fold(k), first = true;
    else if (dm && (a.m.grad == a.x.grad || a.m.grad == a.h.grad))
        rc = serve(k, a, true, false, false), first = true;
    rc = rc ? rc : serve(k, a, dm && !first, a.x.grad, same && a.h.grad);
    return rc || same || !a.h.grad ? rc : to_spread_h(k, a);
}

extern const struct mf_kernel mf_kernel_gate = {"gate", forward, backward, NULL};
