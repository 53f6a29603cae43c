/* kernel_sum.cu - sums, and activations of them. */
#include "cuda/launch.h"

extern "C" {
#include "dev/act.h"
}

enum { OPERANDS = 16 }; /* of a launch */

struct addend {
    const float *data;
    float *grad;
    struct mf_spreading spread;
    bool add;
};

struct addition {
    int rows, cols; /* of y */
    const float *g; /* its gradient */
    float *y, *aux;
    enum mf_act act;
    bool more; /* y has the sum of earlier operands */
    bool bf16; /* y is stored so */
    int n;
    addend of[OPERANDS];
};

static addition addition_of(const struct mf_kernel_call *k)
{
    const struct mf_call *c = &k->call;
    addition s = {};
    s.rows = mf_tile_rows(&c->y, k->n);
    s.cols = c->y.cols;
    s.g = c->y.grad;
    s.y = c->y.data;
    s.aux = c->aux;
    s.bf16 = k->y_bf16;
    s.act = *(const enum mf_act *)c->how;
    return s;
}

/* Adds operand i of the call. */
static void take(addition *s, const struct mf_call *c, int i)
{
    const struct mf_tensor *x = &c->x[i];
    s->of[s->n++] = {x->data, x->grad, mf_spread_of(x, &c->y), x->add};
}

template <int V> static __device__ mf_pack<V> load(const float *p, size_t at)
{
    return *(const mf_pack<V> *)(p + at);
}

template <int V> static __device__ void store(float *p, size_t at, const mf_pack<V> &x)
{
    *(mf_pack<V> *)(p + at) = x;
}

template <int V> static cudaError_t forward_some(cudaStream_t stream, const addition &s)
{
    return mf_cells(stream, s.rows, s.cols / V, [=] __device__(int row, int pack) {
        size_t at = (size_t)row * s.cols + pack * V;
        mf_pack<V> y = {}, slope;
        if (s.more)
            y = load<V>(s.y, at);
        for (int k = 0; k < s.n; k++) {
            mf_pack<V> x = load<V>(s.of[k].data, (size_t)mf_spread_row(s.of[k].spread, row) * s.cols + pack * V);
            for (int v = 0; v < V; v++)
                y.of[v] += x.of[v];
        }
        if (s.act != MF_ACT_NONE) {
            for (int v = 0; v < V; v++)
                y.of[v] = mf_act_of(s.act, y.of[v], &slope.of[v]);
            if (s.aux)
                store(s.aux, at, slope);
        }
        if (s.bf16)
            mf_put_bf16<V>(s.y, at, y);
        else
            store(s.y, at, y);
    });
}

static bool by_fours(const addition &s, bool back)
{
    bool fours = mf_by_fours(back ? s.g : s.y, s.cols) && mf_by_fours(s.aux, s.cols);
    for (int i = 0; i < s.n; i++)
        fours = fours && mf_by_fours(back ? s.of[i].grad : s.of[i].data, s.cols);
    return fours;
}

static cudaError_t forward(const struct mf_kernel_call *k)
{
    const struct mf_call *c = &k->call;
    addition s = addition_of(k);
    cudaError_t rc = cudaSuccess;
    for (int i = 0; i < c->n_x && rc == cudaSuccess;) {
        s.more = i > 0;
        for (s.n = 0; s.n < OPERANDS && i < c->n_x;)
            take(&s, c, i++);
        s.act = i < c->n_x ? MF_ACT_NONE : *(const enum mf_act *)c->how;
        rc = by_fours(s, false) ? forward_some<4>(k->stream, s) : forward_some<1>(k->stream, s);
    }
    return rc;
}

/* The gradient before the activation, to operands whose rows are y's, in the order in which they were taken. It is not
 * stored: to read the slope once more takes no more memory traffic. */
template <int V> static cudaError_t backward_some(cudaStream_t stream, const addition &s)
{
    return mf_cells(stream, s.rows, s.cols / V, [=] __device__(int row, int pack) {
        size_t at = (size_t)row * s.cols + pack * V;
        mf_pack<V> d = load<V>(s.g, at), y = {};
        if (s.act != MF_ACT_NONE) {
            y = s.bf16 && !s.aux ? mf_get_bf16<V>(s.y, at) : load<V>(s.aux ? s.aux : s.y, at);
            for (int v = 0; v < V; v++)
                d.of[v] = mf_act_back(s.act, d.of[v], y.of[v], y.of[v]);
        }
        for (int k = 0; k < s.n; k++) {
            mf_pack<V> sum = d;
            if (s.of[k].add) {
                sum = load<V>(s.of[k].grad, at);
                for (int v = 0; v < V; v++)
                    sum.of[v] += d.of[v];
            }
            store(s.of[k].grad, at, sum);
        }
    });
}

static cudaError_t to_same_rows(const struct mf_kernel_call *k)
{
    const struct mf_call *c = &k->call;
    cudaError_t rc = cudaSuccess;
    for (int i = c->n_x - 1; i >= 0 && rc == cudaSuccess;) {
        addition s = addition_of(k);
        for (; i >= 0 && s.n < OPERANDS; i--)
            if (c->x[i].grad && mf_same_rows(&c->x[i], &c->y))
                take(&s, c, i);
        if (s.n)
            rc = by_fours(s, true) ? backward_some<4>(k->stream, s) : backward_some<1>(k->stream, s);
    }
    return rc;
}

/* A tensor that occurs twice has y's rows both times, or is spread both times: the order within each is enough. */
static cudaError_t backward(const struct mf_kernel_call *k)
{
    const struct mf_call *c = &k->call;
    addition s = addition_of(k);
    const float *g = s.g, *kept = s.aux ? s.aux : s.y;
    enum mf_act act = s.act;
    bool bf16 = s.bf16 && !s.aux;
    int N = s.cols;
    cudaError_t rc = to_same_rows(k);
    for (int i = c->n_x - 1; i >= 0 && rc == cudaSuccess; i--)
        if (c->x[i].grad && !mf_same_rows(&c->x[i], &c->y))
            rc = mf_fold(k, &c->x[i], c->x[i].grad, N, N, [=] __device__(int row, int j) {
                size_t at = (size_t)row * N + j;
                float y = act == MF_ACT_NONE ? 0.0f : bf16 ? mf_get_bf16<1>(kept, at).of[0] : kept[at];
                return mf_act_back(act, g[at], y, y);
            });
    return rc;
}

static bool stores_bf16(const struct mf_call *c)
{
    return c->n_x <= OPERANDS && *(const enum mf_act *)c->how != MF_ACT_TANH;
}

extern const struct mf_kernel mf_kernel_sum = {"sum", forward, backward, NULL, stores_bf16};
