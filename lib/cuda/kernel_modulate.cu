/* kernel_modulate.cu - shift and scale: x (1 + scale) + shift. */
#include "cuda/block.h"

template <int V> static cudaError_t forward_by(const struct mf_kernel_call *k, const struct mf_modulation &a)
{
    return mf_cells(k->stream, a.rows, a.cols / V, [=] __device__(int row, int pack) {
        size_t at = (size_t)row * a.cols + pack * V;
        const float *m = a.m.data + (size_t)mf_spread_row(a.spread, row) * a.m.cols + a.from + pack * V;
        mf_pack<V> x = *(const mf_pack<V> *)(a.x.data + at), shift = *(const mf_pack<V> *)m,
                   scale = *(const mf_pack<V> *)(m + a.cols);
        for (int v = 0; v < V; v++)
            x.of[v] = mf_modulated(x.of[v], scale.of[v], shift.of[v]);
        if (a.bf16)
            mf_put_bf16<V>(a.y.data, at, x);
        else
            *(mf_pack<V> *)(a.y.data + at) = x;
    });
}

/* The gradient of x at a row and a pack. */
template <int V>
__device__ __forceinline__ void to_x(const struct mf_modulation &a, size_t at, const mf_pack<V> &g,
                                     const mf_pack<V> &scale)
{
    mf_pack<V> *p = (mf_pack<V> *)(a.x.grad + at), d = {};
    if (a.x.add)
        d = *p;
    for (int v = 0; v < V; v++)
        d.of[v] += mf_modulated_back(g.of[v], scale.of[v]);
    *p = d;
}

/* A thread takes the rows of y that read a row of m, in order. */
template <int V> static cudaError_t backward_by(const struct mf_kernel_call *k, const struct mf_modulation &a)
{
    return mf_cells(k->stream, a.rows / a.span, a.cols / V, [=] __device__(int t, int pack) {
        size_t to = (size_t)t * a.m.cols + a.from + pack * V, at = (size_t)t * a.span * a.cols + pack * V;
        mf_pack<V> scale = *(const mf_pack<V> *)(a.m.data + to + a.cols), shifts = {}, scales = {};
        mf_rows_in_order<V>(a.y.grad, a.dm ? a.x.data : NULL, at, a.span, a.cols,
                            [&](size_t row, const mf_pack<V> &g, const mf_pack<V> &x) {
                                for (int v = 0; a.dm && v < V; v++) {
                                    shifts.of[v] += g.of[v];
                                    scales.of[v] = mf_term_back(scales.of[v], g.of[v], x.of[v]);
                                }
                                if (a.dx)
                                    to_x(a, row, g, scale);
                            });
        if (!a.dm)
            return;
        mf_pack<V> *shift = (mf_pack<V> *)(a.m.grad + to), *by = (mf_pack<V> *)(a.m.grad + to + a.cols);
        for (int v = 0; a.m.add && v < V; v++) {
            shifts.of[v] += shift->of[v];
            scales.of[v] += by->of[v];
        }
        *shift = shifts;
        *by = scales;
        if (!a.m.add)
            mf_zero_others<V>(a.m, t, a.from, 2 * a.cols, pack, a.cols / V);
    });
}

template <int V> static cudaError_t to_x_alone(const struct mf_kernel_call *k, const struct mf_modulation &a)
{
    return mf_cells(k->stream, a.rows, a.cols / V, [=] __device__(int row, int pack) {
        size_t at = (size_t)row * a.cols + pack * V;
        const float *m = a.m.data + (size_t)mf_spread_row(a.spread, row) * a.m.cols + a.from + pack * V;
        to_x(a, at, *(const mf_pack<V> *)(a.y.grad + at), *(const mf_pack<V> *)(m + a.cols));
    });
}

cudaError_t mf_modulate_fold(const struct mf_kernel_call *k)
{
    struct mf_modulation a = mf_modulation_of(k);
    return mf_fold(k, &a.m, a.m.grad + a.from, a.m.cols, 2 * a.cols, [=] __device__(int row, int j) {
        bool scale = j >= a.cols;
        size_t at = (size_t)row * a.cols + j - (scale ? a.cols : 0);
        float g = a.y.grad[at];
        return scale && g != 0.0f ? g * a.x.data[at] : g;
    });
}

static bool by_fours(const struct mf_modulation &a)
{
    bool fours = a.from % 4 == 0 && mf_by_fours(a.x.data, a.cols) && mf_by_fours(a.m.data, a.m.cols);
    return fours && mf_by_fours(a.y.data, a.cols) && mf_by_fours(a.y.grad, a.cols) && mf_by_fours(a.x.grad, a.cols) &&
           mf_by_fours(a.m.grad, a.m.cols);
}

static cudaError_t forward(const struct mf_kernel_call *k)
{
    struct mf_modulation a = mf_modulation_of(k);
    return by_fours(a) ? forward_by<4>(k, a) : forward_by<1>(k, a);
}

static cudaError_t serve(const struct mf_kernel_call *k, struct mf_modulation a, bool dm, bool dx)
{
    a.dm = dm;
    a.dx = dx;
    if (!dm && !dx)
        return cudaSuccess;
    if (mf_over_samples(&a.m, &a.y))
        return by_fours(a) ? to_x_alone<4>(k, a) : to_x_alone<1>(k, a);
    return by_fours(a) ? backward_by<4>(k, a) : backward_by<1>(k, a);
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    struct mf_modulation a = mf_modulation_of(k);
    bool dm = a.m.grad, dx = a.x.grad, first = false; /* m, where it needs a launch before x's */
    cudaError_t rc = cudaSuccess;
    if (dm && mf_over_samples(&a.m, &a.y))
        rc = mf_modulate_fold(k), first = true;
    else if (dm && a.m.grad == a.x.grad)
        rc = serve(k, a, true, false), first = true;
    return rc ? rc : serve(k, a, dm && !first, dx);
}

static bool stores_bf16(const struct mf_call *)
{
    return true;
}

extern const struct mf_kernel mf_kernel_modulate = {"modulate", forward, backward, NULL, stores_bf16};
