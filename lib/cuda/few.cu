#include "cuda/few.h"

#include <algorithm>

#include "cuda/flow.h"
#include "cuda/linear.h"
#include "cuda/product_tile.h"
#include "cuda/strips.h"

extern const struct mf_kernel mf_kernel_linear, mf_kernel_sum, mf_kernel_rows, mf_kernel_cols, mf_kernel_concat,
    mf_kernel_stack, mf_kernel_noise_std, mf_kernel_flow_mean, mf_kernel_flow_noise, mf_kernel_flow_logprob,
    mf_kernel_reduce;

enum {
    CLUSTER = 8,
    ADDENDS = 3,
    STEPS = 64,          /* of a launch, whose arguments have 32,764 bytes */
    WEIGHTS = 512 * 256, /* of a product, at most: what few multiprocessors still read faster than a launch takes */
};

using tile = gemm::plan<MF_FP32, true, true, 0>; /* of all precisions */

struct few_sum {
    struct mf_reader x[ADDENDS];
    float *y, *aux;
    enum mf_act act;
    int cols;
    __device__ void operator()(int i, int d) const
    {
        size_t at = (size_t)i * cols + d;
        float sum = 0.0f, slope;
#pragma unroll
        for (int o = 0; o < ADDENDS; o++)
            if (x[o].data)
                sum += mf_read_row(x[o], i)[d];
        if (act != MF_ACT_NONE) {
            sum = mf_act_of(act, sum, &slope);
            if (aux)
                aux[at] = slope;
        }
        y[at] = sum;
    }
};

struct few_copy {
    struct mf_strip of;
    __device__ void operator()(int i, int d) const
    {
        of.to[(size_t)i * of.ld_to + d] = of.from[(size_t)mf_spread_row(of.spread, i) * of.ld_from + d];
    }
};

enum few_kind { PRODUCT, SUM, COPY, STD, MEAN, NOISE, LOGPROB, REDUCE, FETCH };

struct mf_few_step {
    enum few_kind kind;
    bool waits;     /* for all before it */
    int rows, cols; /* numbers that are computed one by one */
    union {
        struct gemm::job product;
        struct few_sum sum;
        struct few_copy copy;
        struct mf_noise_std_of std;
        struct mf_flow_mean_of mean;
        struct mf_flow_noise_of noise;
        struct mf_flow_logprob_of logprob;
        struct mf_reduction reduce;
        struct mf_fetching fetch;
    } as;
};

struct some_steps {
    int n;
    mf_few_step of[STEPS];
};
static_assert(sizeof(some_steps) <= 32764, "the arguments of a launch");

/* ---- on the device ---- */

template <class F> static __device__ __forceinline__ void each(const mf_few_step &s, F f)
{
    for (int i = blockIdx.x * tile::THREADS + threadIdx.x; i < s.rows * s.cols; i += CLUSTER * tile::THREADS)
        f(i / s.cols, i % s.cols);
}

static __device__ __forceinline__ void reduce(const struct mf_reduction &r, int team)
{
    int each = CLUSTER * tile::THREADS / team, me = (int)(blockIdx.x * tile::THREADS + threadIdx.x) / team;
    for (int first = 0; first < r.sums; first += each)
        mf_sum_by_team(
            first + me, r.sums, r.terms, team, [&](int o, int t) { return r.term(o, t); },
            [&](int o, double sum) { r.done(o, sum); });
}

template <enum mf_precision P>
__global__ void __launch_bounds__(tile::THREADS) few_kernel(const __grid_constant__ some_steps all)
{
    for (int i = 0; i < all.n; i++) {
        const mf_few_step &s = all.of[i];
        if (s.waits)
            mf_cluster_wait();
        switch (s.kind) {
        case PRODUCT:
            for (int t = blockIdx.x; t < s.rows * s.cols; t += CLUSTER) {
                __syncthreads(); /* the last tile is no longer read */
                gemm::compute<P, true, true, 0>(s.as.product, t / s.cols * tile::BM, t % s.cols * tile::BN, 0);
            }
            break;
        case SUM:
            each(s, s.as.sum);
            break;
        case COPY:
            each(s, s.as.copy);
            break;
        case STD:
            each(s, [&](int i, int d) { s.as.std((size_t)i * s.cols + d); });
            break;
        case MEAN:
            each(s, s.as.mean);
            break;
        case NOISE:
            each(s, s.as.noise);
            break;
        case LOGPROB:
            each(s, s.as.logprob);
            break;
        case REDUCE:
            reduce(s.as.reduce, s.cols);
            break;
        case FETCH:
            each(s, [&](int i, int) { s.as.fetch((size_t)i); });
            break;
        }
    }
}

/* ---- on the host ---- */

mf_few::mf_few() = default;
mf_few::~mf_few() = default;

static bool meet(const float *a, const float *a_end, const float *b, const float *b_end)
{
    return a < b_end && b < a_end;
}

/* Steps follow that read and write these numbers. */
void mf_few::begin(const std::vector<range> &reads, const std::vector<range> &writes)
{
    waits = false;
    for (const range &w : written) {
        for (const range &r : reads)
            waits = waits || meet(r.from, r.to, w.from, w.to);
        for (const range &r : writes)
            waits = waits || meet(r.from, r.to, w.from, w.to);
    }
    for (const range &r : read)
        for (const range &w : writes)
            waits = waits || meet(r.from, r.to, w.from, w.to);
    if (waits)
        read.clear(), written.clear();
    read.insert(read.end(), reads.begin(), reads.end());
    written.insert(written.end(), writes.begin(), writes.end());
}

void mf_few::push(mf_few_step s)
{
    s.waits = waits;
    waits = false;
    steps.push_back(s);
}

/* A product without a long way to its weights. */
static bool is_small(const struct mf_call *c)
{
    return !mf_linear_how_of(c)->transposed && (long)c->x[0].cols * c->y.cols <= WEIGHTS;
}

bool mf_few::add(const struct mf_kernel *kernel, const struct mf_kernel_call *k)
{
    const struct mf_call *c = &k->call;
    std::vector<range> reads, writes;
    std::vector<mf_strip> strips;
    std::vector<mf_tensor> flat(c->n_x);
    mf_few_step s = {};
    s.rows = mf_tile_rows(&c->y, k->n), s.cols = c->y.cols;
    if (kernel == &mf_kernel_linear && is_small(c)) {
        struct mf_product p = mf_linear_product(k);
        s.kind = PRODUCT, s.as.product = gemm::job_of(&p);
        s.rows = (p.M + tile::BM - 1) / tile::BM, s.cols = (p.N + tile::BN - 1) / tile::BN;
    } else if (kernel == &mf_kernel_sum && c->n_x <= ADDENDS) {
        s.kind = SUM, s.as.sum = {{}, c->y.data, c->aux, *(const enum mf_act *)c->how, c->y.cols};
        for (int i = 0; i < c->n_x; i++)
            s.as.sum.x[i] = mf_reads(k, i);
    } else if (kernel == &mf_kernel_noise_std) {
        s.kind = STD, s.as.std = mf_noise_std_of_call(k);
    } else if (kernel == &mf_kernel_flow_mean) {
        s.kind = MEAN, s.as.mean = mf_flow_mean_of_call(k);
    } else if (kernel == &mf_kernel_flow_noise) {
        s.kind = NOISE, s.as.noise = mf_flow_noise_of_call(k);
    } else if (kernel == &mf_kernel_flow_logprob) {
        s.kind = LOGPROB, s.as.logprob = mf_flow_logprob_of_call(k);
    } else if (kernel == &mf_kernel_reduce) {
        s.kind = REDUCE, s.as.reduce = mf_reduction_of(k);
        s.cols = mf_team(s.as.reduce.terms);
    } else if (kernel == &mf_kernel_cols) {
        strips = {mf_columns_of(k, *(const int *)c->how)};
    } else if (kernel == &mf_kernel_concat) {
        strips = mf_strips_of(k);
    } else if (kernel == &mf_kernel_rows || kernel == &mf_kernel_stack) {
        struct mf_kernel_call all = mf_flat_call(k, flat.data());
        strips = kernel == &mf_kernel_stack
                     ? mf_strips_of(&all)
                     : std::vector<mf_strip>{mf_columns_of(&all, *(const int *)c->how * c->y.cols)};
        s.rows = k->n;
    } else {
        return false;
    }
    auto range_of = [k](const struct mf_tensor *t) {
        return range{t->data, t->data + (size_t)mf_tile_rows(t, k->n) * t->cols};
    };
    for (int i = 0; i < c->n_x; i++)
        reads.push_back(range_of(&c->x[i]));
    writes.push_back(range_of(&c->y));
    if (c->aux)
        writes.push_back({c->aux, c->aux + (size_t)mf_tile_rows(&c->y, k->n) * c->y.cols});
    begin(reads, writes);
    if (strips.empty())
        push(s);
    for (const mf_strip &strip : strips) {
        s.kind = COPY, s.cols = strip.cols, s.as.copy = {strip};
        push(s);
    }
    return true;
}

void mf_few::fetch(const struct mf_fetching &f)
{
    mf_few_step s = {};
    int places = f.at.lanes * f.at.room;
    s.kind = FETCH, s.rows = places * f.floats, s.cols = 1, s.as.fetch = f;
    begin({{f.from, f.from + (f.shared ? 1 : places) * f.floats}}, {});
    push(s);
}

static cudaError_t launch(const some_steps &all, enum mf_precision precision, cudaStream_t stream)
{
    void (*form)(const some_steps) = precision == MF_FP32   ? few_kernel<MF_FP32>
                                     : precision == MF_TF32 ? few_kernel<MF_TF32>
                                                            : few_kernel<MF_BF16>;
    size_t floats = precision == MF_BF16 ? (size_t)gemm::plan<MF_BF16, true, true, 0>::FLOATS : (size_t)tile::FLOATS;
    cudaLaunchAttribute of = {};
    cudaLaunchConfig_t how = {};
    of.id = cudaLaunchAttributeClusterDimension;
    of.val.clusterDim.x = CLUSTER, of.val.clusterDim.y = of.val.clusterDim.z = 1;
    how.gridDim = dim3(CLUSTER), how.blockDim = dim3(tile::THREADS), how.dynamicSmemBytes = floats * sizeof(float);
    how.stream = stream, how.attrs = &of, how.numAttrs = 1;
    return cudaLaunchKernelEx(&how, form, all);
}

cudaError_t mf_few::run(enum mf_precision precision, cudaStream_t stream) const
{
    std::unique_ptr<some_steps> all(new some_steps);
    cudaError_t rc = cudaSuccess;
    for (size_t from = 0; from < steps.size() && rc == cudaSuccess; from += STEPS) {
        all->n = (int)std::min(steps.size() - from, (size_t)STEPS);
        for (int i = 0; i < all->n; i++)
            all->of[i] = steps[from + i];
        all->of[0].waits = false;
        rc = launch(*all, precision, stream);
    }
    return rc;
}
