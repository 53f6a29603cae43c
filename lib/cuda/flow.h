/* flow.h - what kernels compute of an element of a denoising step: in launches of their own (kernel_flow_*.cu), and for
 * few rows in one with others (few.cu).
 */
#ifndef MF_CUDA_FLOW_H
#define MF_CUDA_FLOW_H

#include "cuda/elements.h"

extern "C" {
#include "flow/loops.h"
}

struct mf_flow_mean_of {
    struct mf_reader x, v, coef;
    float limit, *y;
    int cols;
    __device__ void operator()(int i, int d) const
    {
        float mean = mf_flow_mean_at(mf_read_row(coef, i), mf_read_row(x, i)[d], mf_read_row(v, i)[d]);
        y[(size_t)i * cols + d] = mf_flow_kept(mean, limit);
    }
};

static inline struct mf_flow_mean_of mf_flow_mean_of_call(const struct mf_kernel_call *k)
{
    return {mf_reads(k, 0), mf_reads(k, 1), mf_reads(k, 2), *(const float *)k->call.how,
            k->call.y.data, k->call.y.cols};
}

struct mf_flow_noise_of {
    struct mf_reader mean, eps, coef, std;
    struct mf_flow_noise_how how;
    float *y;
    int cols;
    __device__ void operator()(int i, int d) const
    {
        float s = mf_flow_std_at(mf_read_row(coef, i), mf_read_row(std, i), d);
        y[(size_t)i * cols + d] = mf_flow_noise_at(&how, mf_read_row(mean, i)[d], s, mf_read_row(eps, i)[d]);
    }
};

static inline struct mf_flow_noise_of mf_flow_noise_of_call(const struct mf_kernel_call *k)
{
    return {
        mf_reads(k, 0), mf_reads(k, 1), mf_reads(k, 2), mf_reads(k, 3), *(const struct mf_flow_noise_how *)k->call.how,
        k->call.y.data, k->call.y.cols};
}

struct mf_flow_logprob_of {
    struct mf_reader next, mean, coef, std;
    float *y;
    int cols;
    __device__ void operator()(int i, int d) const
    {
        float s = mf_flow_std_at(mf_read_row(coef, i), mf_read_row(std, i), d);
        y[(size_t)i * cols + d] = mf_flow_logprob_at(mf_read_row(next, i)[d], mf_read_row(mean, i)[d], s);
    }
};

static inline struct mf_flow_logprob_of mf_flow_logprob_of_call(const struct mf_kernel_call *k)
{
    return {mf_reads(k, 0), mf_reads(k, 1), mf_reads(k, 2), mf_reads(k, 3), k->call.y.data, k->call.y.cols};
}

struct mf_noise_std_of {
    const float *u, *bounds;
    float *y;
    __device__ void operator()(size_t at) const
    {
        y[at] = mf_noise_std_at(bounds, u[at]);
    }
};

static inline struct mf_noise_std_of mf_noise_std_of_call(const struct mf_kernel_call *k)
{
    return {k->call.x[0].data, k->call.x[1].data, k->call.y.data};
}

/* ---- reduce ---- */

struct mf_reduction {
    struct mf_reduce_how how;
    int K, D, E, sums, terms;
    struct mf_div by_width, by_E;
    const float *elements, *first;
    float *y;
    __device__ double term(int o, int t) const
    {
        int s = mf_quotient(by_E, o), row = mf_quotient(by_width, t), d, end;
        mf_reduce_columns(&how, D, o - s * E, &d, &end);
        d += t - row * (end - d);
        double x = (double)elements[((size_t)s * K + row) * D + d];
        return first && row == 0 ? x - mf_reduce_first_at(first[(size_t)s * D + d]) : x;
    }
    __device__ void done(int o, double sum) const
    {
        y[o] = (float)(sum * (double)how.scale);
    }
};

static inline struct mf_reduction mf_reduction_of(const struct mf_kernel_call *k)
{
    struct mf_reduction r = {};
    int from, to;
    r.how = *(const struct mf_reduce_how *)k->call.how;
    r.K = k->call.x[0].rows, r.D = k->call.x[0].cols, r.E = k->call.y.cols;
    mf_reduce_columns(&r.how, r.D, 0, &from, &to); /* each e has as many */
    r.sums = k->n * r.E, r.terms = r.K * (to - from);
    r.by_width = mf_div_by(to - from), r.by_E = mf_div_by(r.E);
    r.elements = k->call.x[0].data, r.first = k->call.n_x > 1 ? k->call.x[1].data : NULL;
    r.y = k->call.y.data;
    return r;
}

#endif
