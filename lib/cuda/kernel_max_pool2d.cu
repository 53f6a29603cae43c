/* kernel_max_pool2d.cu - the largest of every window of a map. */
#include "cuda/patch.h"

template <int V> static cudaError_t largest(const struct mf_kernel_call *k)
{
    struct mf_windows s = mf_windows_of(k);
    const float *x = k->call.x[0].data;
    float *y = k->call.y.data, *aux = k->call.aux;
    return mf_cells(k->stream, mf_tile_rows(&k->call.y, k->n), s.C / V, [=] __device__(int i, int pack) {
        struct mf_window w = mf_window_of(s, i);
        int top = w.top < 0 ? -w.top : 0, left = w.left < 0 ? -w.left : 0; /* the first within the map */
        int end = s.how.H - w.top < s.how.kh ? s.how.H - w.top : s.how.kh;
        int right = s.how.W - w.left < s.how.kw ? s.how.W - w.left : s.how.kw;
        const float *map = x + (size_t)w.map * s.map.by * s.C + pack * V;
        size_t at = (size_t)i * s.C + pack * V;
        mf_pack<V> most = *(const mf_pack<V> *)(map + (ptrdiff_t)((w.top + top) * s.how.W + w.left + left) * s.C);
        mf_pack<V> which;
        for (int v = 0; v < V; v++)
            which.of[v] = (float)(top * s.how.kw + left);
        for (int a = top; a < end; a++)
            for (int b = left; b < right; b++) {
                auto next = *(const mf_pack<V> *)(map + (ptrdiff_t)((w.top + a) * s.how.W + w.left + b) * s.C);
                for (int v = 0; v < V; v++)
                    if (next.of[v] > most.of[v] || next.of[v] != next.of[v]) {
                        most.of[v] = next.of[v];
                        which.of[v] = (float)(a * s.how.kw + b);
                    }
            }
        *(mf_pack<V> *)(y + at) = most;
        if (aux)
            *(mf_pack<V> *)(aux + at) = which;
    });
}

template <int V> static cudaError_t to_largest(const struct mf_kernel_call *k)
{
    struct mf_windows s = mf_windows_of(k);
    const float *g = k->call.y.grad, *aux = k->call.aux;
    float *dx = k->call.x[0].grad;
    bool add = k->call.x[0].add;
    return mf_cells(k->stream, mf_tile_rows(&k->call.x[0], k->n), s.C / V, [=] __device__(int row, int pack) {
        auto *to = (mf_pack<V> *)(dx + (size_t)row * s.C + pack * V);
        mf_pack<V> sum = {};
        if (add)
            sum = *to;
        mf_windows_with(s, row, [&](int i, int tap) {
            size_t at = (size_t)i * s.C + pack * V;
            mf_pack<V> d = *(const mf_pack<V> *)(g + at), which = *(const mf_pack<V> *)(aux + at);
            for (int v = 0; v < V; v++)
                sum.of[v] += which.of[v] == (float)tap ? d.of[v] : 0.0f;
        });
        *to = sum;
    });
}

static cudaError_t forward(const struct mf_kernel_call *k)
{
    return mf_windows_by_fours(k, false) ? largest<4>(k) : largest<1>(k);
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    return mf_windows_by_fours(k, true) ? to_largest<4>(k) : to_largest<1>(k);
}

extern const struct mf_kernel mf_kernel_max_pool2d = {"max_pool2d", forward, backward, NULL};
