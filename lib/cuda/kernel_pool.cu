/* kernel_pool.cu - the largest, or the mean, of consecutive rows. */
#include "cuda/launch.h"

extern "C" {
#include "op/how.h"
}

struct pool {
    int M, N, some; /* rows and columns of y; rows of x that become one */
    bool mean;
    const float *x;
    float *y, *aux; /* aux: the number of the largest row, as a float */
};

struct pooled { /* of some rows: the sum, or the largest and its number */
    float y;
    int which;
};

static __device__ pooled pool_rows(const pool &p, const float *x, int from, int to)
{
    pooled all = {x[(size_t)from * p.N], from};
#pragma unroll 8
    for (int r = from + 1; r < to; r++) {
        float next = x[(size_t)r * p.N];
        if (p.mean)
            all.y += next;
        else if (next > all.y || next != next)
            all = {next, r};
    }
    return all;
}

/* What rows in order would give: the first of equals, and the last NaN before all. */
static __device__ pooled pool_two(const pool &p, pooled a, pooled b)
{
    bool a_nan = a.y != a.y, b_nan = b.y != b.y;
    if (p.mean)
        return {a.y + b.y, 0};
    if (a_nan || b_nan)
        return b_nan && (!a_nan || b.which > a.which) ? b : a;
    return b.y > a.y || (b.y == a.y && b.which < a.which) ? b : a;
}

/* The threads (j, 0..G-1) of a row and column of y take ranges of the rows, and become one by halves. */
static __global__ void __launch_bounds__(1024) pool_kernel(pool p)
{
    pooled *parts = mf_shared<pooled>(), mine = {0.0f, 0};
    int X = blockDim.x, G = blockDim.y, g = threadIdx.y, me = ((int)threadIdx.z * G + g) * X + (int)threadIdx.x;
    int i = blockIdx.x * blockDim.z + threadIdx.z, j = blockIdx.y * X + threadIdx.x;
    bool is = i < p.M && j < p.N;
    if (is)
        mine = pool_rows(p, p.x + (size_t)i * p.some * p.N + j, p.some * g / G, p.some * (g + 1) / G);
    parts[me] = mine;
    for (int half = G / 2; half; half /= 2) {
        __syncthreads();
        if (g < half)
            parts[me] = mine = pool_two(p, mine, parts[me + half * X]);
    }
    if (g || !is)
        return;
    size_t at = (size_t)i * p.N + j;
    p.y[at] = p.mean ? mine.y / (float)p.some : mine.y;
    if (p.aux)
        p.aux[at] = (float)mine.which;
}

static pool pool_of(const struct mf_kernel_call *k)
{
    const struct mf_call *c = &k->call;
    return {mf_tile_rows(&c->y, k->n),
            c->y.cols,
            c->x[0].rows / c->y.rows,
            *(const enum mf_pool *)c->how == MF_POOL_MEAN,
            c->x[0].data,
            c->y.data,
            c->aux};
}

static cudaError_t forward(const struct mf_kernel_call *k)
{
    pool p = pool_of(k);
    dim3 block = mf_fold_block(p.N, p.some / 16);
    return mf_launch(k->stream, dim3((p.M + block.z - 1) / block.z, (p.N + block.x - 1) / block.x), block,
                     block.x * block.y * block.z * sizeof(pooled), pool_kernel, p);
}

/* Every row of x, whose part of the gradient may be 0. */
template <int V> static cudaError_t set(const struct mf_kernel_call *k)
{
    pool p = pool_of(k);
    const float *g = k->call.y.grad;
    float *dx = k->call.x[0].grad;
    struct mf_div some = mf_div_by(p.some);
    bool add = k->call.x[0].add;
    return mf_cells(k->stream, p.M * p.some, p.N / V, [=] __device__(int row, int pack) {
        int i = mf_quotient(some, row), r = row - i * p.some;
        size_t from = (size_t)i * p.N + pack * V;
        auto *to = (mf_pack<V> *)(dx + (size_t)row * p.N + pack * V);
        mf_pack<V> d = *(const mf_pack<V> *)(g + from), sum = {};
        if (add)
            sum = *to;
        for (int v = 0; v < V; v++)
            if (p.mean)
                sum.of[v] += d.of[v] / (float)p.some;
            else
                sum.of[v] = (int)p.aux[from + v] == r ? d.of[v] : 0.0f;
        *to = sum;
    });
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    const struct mf_tensor *x = &k->call.x[0], *y = &k->call.y;
    pool p = pool_of(k);
    if (p.mean || !x->add)
        return mf_by_fours(x->grad, p.N) && mf_by_fours(y->grad, p.N) ? set<4>(k) : set<1>(k);
    const float *g = y->grad;
    float *dx = x->grad;
    return mf_cells(k->stream, p.M, p.N, [=] __device__(int i, int j) {
        size_t at = (size_t)i * p.N + j;
        dx[((size_t)i * p.some + (int)p.aux[at]) * p.N + j] += g[at];
    });
}

extern const struct mf_kernel mf_kernel_pool = {"pool", forward, backward, NULL};
