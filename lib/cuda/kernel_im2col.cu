/* kernel_im2col.cu - every window of a map becomes one row. */
#include "cuda/patch.h"

template <int V> static cudaError_t apart(const struct mf_kernel_call *k)
{
    struct mf_windows s = mf_windows_of(k);
    const float *x = k->call.x[0].data;
    float *y = k->call.y.data;
    int N = k->call.y.cols, run = s.how.kw * s.C, line = s.how.W * s.C; /* of a window, of a map: a row of pixels */
    struct mf_div by = mf_div_by(run / V);
    return mf_cells(k->stream, mf_tile_rows(&k->call.y, k->n), N / V, [=] __device__(int i, int pack) {
        struct mf_window w = mf_window_of(s, i);
        int row = mf_quotient(by, pack), at = w.left * s.C + (pack - row * (int)by.by) * V;
        mf_pack<V> p = {};
        row += w.top;
        if (row >= 0 && row < s.how.H && at >= 0 && at < line)
            p = *(const mf_pack<V> *)(x + ((size_t)w.map * s.how.H + row) * line + at);
        *(mf_pack<V> *)(y + (size_t)i * N + pack * V) = p;
    });
}

template <int V> static cudaError_t together(const struct mf_kernel_call *k)
{
    struct mf_windows s = mf_windows_of(k);
    const float *g = k->call.y.grad;
    float *dx = k->call.x[0].grad;
    bool add = k->call.x[0].add;
    int N = k->call.y.cols;
    return mf_cells(k->stream, mf_tile_rows(&k->call.x[0], k->n), s.C / V, [=] __device__(int row, int pack) {
        auto *to = (mf_pack<V> *)(dx + (size_t)row * s.C + pack * V);
        mf_pack<V> sum = {};
        if (add)
            sum = *to;
        mf_windows_with(s, row, [&](int i, int tap) {
            mf_pack<V> d = *(const mf_pack<V> *)(g + (size_t)i * N + tap * s.C + pack * V);
            for (int v = 0; v < V; v++)
                sum.of[v] += d.of[v];
        });
        *to = sum;
    });
}

static cudaError_t forward(const struct mf_kernel_call *k)
{
    return mf_windows_by_fours(k, false) ? apart<4>(k) : apart<1>(k);
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    return mf_windows_by_fours(k, true) ? together<4>(k) : together<1>(k);
}

extern const struct mf_kernel mf_kernel_im2col = {"im2col", forward, backward, NULL};
