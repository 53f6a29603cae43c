#include "cuda/strips.h"

enum { STRIPS = 16 }; /* of a launch */

struct strips {
    struct {
        struct mf_strip strip;
        struct mf_div packs; /* of a row */
    } of[STRIPS];
};

template <int V>
static __global__ void __launch_bounds__(MF_BLOCK) strips_kernel(int first, int rows, const __grid_constant__ strips s)
{
    const struct mf_strip &p = s.of[blockIdx.y].strip;
    const struct mf_div &packs = s.of[blockIdx.y].packs;
    int i = (int)(blockIdx.x * MF_BLOCK + threadIdx.x), row = mf_quotient(packs, i);
    if (row >= rows)
        return;
    int col = (i - row * (int)packs.by) * V;
    row += first;
    auto *to = (mf_pack<V> *)(p.to + (size_t)row * p.ld_to + col);
    mf_pack<V> x = {};
    if (p.from)
        x = *(const mf_pack<V> *)(p.from + (size_t)mf_spread_row(p.spread, row) * p.ld_from + col);
    if (p.add) {
        mf_pack<V> sum = *to;
        for (int v = 0; v < V; v++)
            x.of[v] = sum.of[v] + x.of[v];
    }
    *to = x;
}

static bool by_fours(int n, const struct mf_strip *p)
{
    bool fours = true;
    for (int i = 0; i < n; i++)
        fours = fours && p[i].cols % 4 == 0 && mf_by_fours(p[i].to, p[i].ld_to) && mf_by_fours(p[i].from, p[i].ld_from);
    return fours;
}

static cudaError_t some_strips(cudaStream_t stream, int rows, int n, const struct mf_strip *strip)
{
    int V = by_fours(n, strip) ? 4 : 1, widest = 1;
    strips s = {};
    for (int i = 0; i < n; i++) {
        s.of[i] = {strip[i], mf_div_by(strip[i].cols / V)};
        widest = strip[i].cols / V > widest ? strip[i].cols / V : widest;
    }
    cudaError_t rc = cudaSuccess;
    int most = (INT_MAX - MF_BLOCK) / widest; /* rows of a launch, which counts in 31 bits */
    for (int from = 0, some; from < rows && rc == cudaSuccess; from += some) {
        some = rows - from < most ? rows - from : most;
        dim3 grid((unsigned)((some * widest + MF_BLOCK - 1) / MF_BLOCK), (unsigned)n);
        rc = mf_launch(stream, grid, dim3(MF_BLOCK), 0, V == 4 ? strips_kernel<4> : strips_kernel<1>, from, some, s);
    }
    return rc;
}

cudaError_t mf_strips(cudaStream_t stream, int rows, int n, const struct mf_strip *strip)
{
    cudaError_t rc = cudaSuccess;
    for (int i = 0; i < n && rc == cudaSuccess; i += STRIPS)
        rc = some_strips(stream, rows, n - i < STRIPS ? n - i : STRIPS, strip + i);
    return rc;
}

std::vector<mf_strip> mf_strips_of(const struct mf_kernel_call *k)
{
    const struct mf_call *c = &k->call;
    std::vector<mf_strip> strip;
    float *to = c->y.data;
    for (int i = 0; i < c->n_x; to += c->x[i++].cols)
        strip.push_back(
            {to, c->x[i].data, c->y.cols, c->x[i].cols, c->x[i].cols, mf_spread_of(&c->x[i], &c->y), false});
    return strip;
}

cudaError_t mf_strips_forward(const struct mf_kernel_call *k)
{
    return mf_strips(k->stream, mf_tile_rows(&k->call.y, k->n), k->call.n_x, mf_strips_of(k).data());
}

/* An operand may occur twice: its last place comes first, and those of a launch are of different operands. */
cudaError_t mf_strips_backward(const struct mf_kernel_call *k)
{
    const struct mf_call *c = &k->call;
    int rows = mf_tile_rows(&c->y, k->n), N = c->y.cols, at = N;
    std::vector<mf_strip> strip; /* to do */
    cudaError_t rc = cudaSuccess;
    auto flush = [&] {
        if (rc == cudaSuccess)
            rc = mf_strips(k->stream, rows, (int)strip.size(), strip.data());
        strip.clear();
    };
    for (int i = c->n_x - 1; i >= 0 && rc == cudaSuccess; i--) {
        const struct mf_tensor *x = &c->x[i];
        const float *d = c->y.grad + (at -= x->cols);
        if (!x->grad)
            continue;
        if (!mf_same_rows(x, &c->y)) {
            flush();
            if (rc == cudaSuccess)
                rc = mf_fold(k, x, x->grad, x->cols, x->cols,
                             [=] __device__(int i, int j) { return d[(size_t)i * N + j]; });
            continue;
        }
        for (const mf_strip &p : strip)
            if (p.to == x->grad) {
                flush();
                break;
            }
        strip.push_back({x->grad, d, x->cols, N, x->cols, mf_spread_of(x, &c->y), x->add});
    }
    flush();
    return rc;
}

struct mf_strip mf_columns_of(const struct mf_kernel_call *k, int from)
{
    const struct mf_tensor *y = &k->call.y, *x = &k->call.x[0];
    return {y->data, x->data + from, y->cols, x->cols, y->cols, mf_spread_of(y, y), false};
}

cudaError_t mf_columns_forward(const struct mf_kernel_call *k, int from)
{
    struct mf_strip strip = mf_columns_of(k, from);
    return mf_strips(k->stream, mf_tile_rows(&k->call.y, k->n), 1, &strip);
}

cudaError_t mf_columns_backward(const struct mf_kernel_call *k, int from)
{
    const struct mf_tensor *y = &k->call.y, *x = &k->call.x[0];
    struct mf_spreading same = mf_spread_of(y, y);
    int n = 0, end = from + y->cols;
    struct mf_strip strip[3];
    strip[n++] = {x->grad + from, y->grad, x->cols, y->cols, y->cols, same, x->add};
    if (!x->add && from > 0)
        strip[n++] = {x->grad, NULL, x->cols, 0, from, same, false};
    if (!x->add && end < x->cols)
        strip[n++] = {x->grad + end, NULL, x->cols, 0, x->cols - end, same, false};
    return mf_strips(k->stream, mf_tile_rows(y, k->n), n, strip);
}

static struct mf_tensor flat(const struct mf_tensor *t)
{
    struct mf_tensor one = *t;
    one.rows = 1;
    one.cols = t->rows * t->cols;
    return one;
}

struct mf_kernel_call mf_flat_call(const struct mf_kernel_call *k, struct mf_tensor *x)
{
    struct mf_kernel_call all = *k;
    all.call.y = flat(&k->call.y);
    all.call.x = x;
    for (int i = 0; i < k->call.n_x; i++)
        x[i] = flat(&k->call.x[i]);
    return all;
}
