/* ref_flow.c - the flow's own operations: the mean of a step, its noise, the log-probability of both. */
#include <math.h>

#include "dev/ref.h"

static const float LOG_2PI = 1.8378770664093453f;

static float kept(float x, float limit)
{
    return limit <= 0.0f ? x : x < -limit ? -limit : x > limit ? limit : x;
}

static const float *row(const struct mf_call *c, int k, int i)
{
    return c->x[k].data + (size_t)mf_row_of(&c->x[k], &c->y, i) * (size_t)c->x[k].cols;
}

static float *grad_row(const struct mf_call *c, int k, int i)
{
    return c->x[k].grad ? c->x[k].grad + (size_t)mf_row_of(&c->x[k], &c->y, i) * (size_t)c->x[k].cols : NULL;
}

/* The std of element d of row i: coefficient 2, times operand 3 where there is one. */
static float std_at(const struct mf_call *c, int i, int d)
{
    float s = row(c, 2, i)[2];
    return c->n_x > 3 ? s * row(c, 3, i)[d] : s;
}

void mf_ref_flow_mean(const struct mf_call *c, int n)
{
    int D = c->y.cols;
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++) {
        const float *x = row(c, 0, i), *v = row(c, 1, i), *coef = row(c, 2, i);
        for (int d = 0; d < D; d++)
            c->y.data[i * D + d] = kept(coef[0] * x[d] + coef[1] * v[d], c->limit);
    }
}

void mf_ref_flow_mean_back(const struct mf_call *c, int n, float *lane)
{
    int D = c->y.cols;
    (void)lane;
    mf_ref_zero(c, n);
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++) {
        const float *x = row(c, 0, i), *v = row(c, 1, i), *coef = row(c, 2, i);
        float *dx = grad_row(c, 0, i), *dv = grad_row(c, 1, i);
        for (int d = 0; d < D; d++) {
            float g = c->y.grad[i * D + d], mean = coef[0] * x[d] + coef[1] * v[d];
            if (g == 0.0f || (c->limit > 0.0f && fabsf(mean) > c->limit))
                continue;
            if (dx)
                dx[d] += coef[0] * g;
            if (dv)
                dv[d] += coef[1] * g;
        }
    }
}

void mf_ref_noise_std(const struct mf_call *c, int n)
{
    int D = c->y.cols;
    float low = c->x[1].data[0], high = c->x[1].data[1];
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++)
        for (int d = 0; d < D; d++) {
            float t = tanhf(c->x[0].data[i * D + d]);
            c->y.data[i * D + d] = expf(0.5f * (low + (high - low) * 0.5f * (t + 1.0f)));
        }
}

void mf_ref_noise_std_back(const struct mf_call *c, int n, float *lane)
{
    int D = c->y.cols;
    float low = c->x[1].data[0], high = c->x[1].data[1];
    (void)lane;
    mf_ref_zero(c, n);
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++)
        for (int d = 0; d < D; d++) {
            float g = c->y.grad[i * D + d];
            if (g == 0.0f)
                continue;
            float t = tanhf(c->x[0].data[i * D + d]);
            c->x[0].grad[i * D + d] += g * c->y.data[i * D + d] * 0.25f * (high - low) * (1.0f - t * t);
        }
}

void mf_ref_flow_noise(const struct mf_call *c, int n)
{
    int D = c->y.cols;
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++) {
        const float *mean = row(c, 0, i), *eps = row(c, 1, i);
        for (int d = 0; d < D; d++) {
            float s = std_at(c, i, d); /* where it is 0, eps may hold anything */
            c->y.data[i * D + d] = kept(s == 0.0f ? mean[d] : mean[d] + s * kept(eps[d], c->clip), c->limit);
        }
    }
}

void mf_ref_flow_logprob(const struct mf_call *c, int n)
{
    int D = c->y.cols;
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++) {
        const float *next = row(c, 0, i), *mean = row(c, 1, i);
        for (int d = 0; d < D; d++) {
            float s = std_at(c, i, d), z = (next[d] - mean[d]) / s;
            c->y.data[i * D + d] = s == 0.0f ? 0.0f : -logf(s) - 0.5f * LOG_2PI - 0.5f * z * z;
        }
    }
}

void mf_ref_flow_logprob_back(const struct mf_call *c, int n, float *lane)
{
    int D = c->y.cols;
    (void)lane;
    mf_ref_zero(c, n);
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++) {
        const float *next = row(c, 0, i), *mean = row(c, 1, i), *coef = row(c, 2, i);
        float *dnext = grad_row(c, 0, i), *dmean = grad_row(c, 1, i), *dstd = c->n_x > 3 ? grad_row(c, 3, i) : NULL;
        for (int d = 0; d < D; d++) {
            float g = c->y.grad[i * D + d], s = std_at(c, i, d);
            if (g == 0.0f || s == 0.0f)
                continue;
            float z = (next[d] - mean[d]) / s;
            if (dnext)
                dnext[d] -= g * z / s;
            if (dmean)
                dmean[d] += g * z / s;
            if (dstd)
                dstd[d] += coef[2] * g * (z * z - 1.0f) / s;
        }
    }
}

void mf_ref_flow_entropy(const struct mf_call *c, int n)
{
    int size = c->x[0].rows * c->x[0].cols;
    for (int s = 0; s < (c->y.shared ? 1 : n); s++) {
        const float *std = c->x[0].data + (size_t)s * (size_t)size;
        double sum = 0.0;
        for (int j = 0; j < size; j++)
            sum += 0.5 * ((double)LOG_2PI + 1.0) + (double)logf(std[j]);
        c->y.data[s] = (float)(sum * (double)c->scale);
    }
}

void mf_ref_flow_entropy_back(const struct mf_call *c, int n, float *lane)
{
    int size = c->x[0].rows * c->x[0].cols;
    (void)lane;
    mf_ref_zero(c, n);
    for (int s = 0; s < (c->y.shared ? 1 : n); s++)
        for (int j = 0; c->y.grad[s] != 0.0f && j < size; j++) {
            size_t at = (size_t)s * (size_t)size + (size_t)j;
            c->x[0].grad[at] += c->y.grad[s] * c->scale / c->x[0].data[at];
        }
}

/* The column of the result that column d of the elements goes to; -1: none (not executed). */
static int goes_to(const struct mf_call *c, int d)
{
    int e = d - c->offset * c->A;
    if (c->how == MF_REDUCE_ALL)
        return 0;
    if (e < 0 || e >= c->C * c->A)
        return -1;
    return c->how == MF_REDUCE_TOKEN ? e : c->how == MF_REDUCE_ACTION ? e / c->A : 0;
}

void mf_ref_reduce(const struct mf_call *c, int n)
{
    int K = c->x[0].rows, D = c->x[0].cols, E = c->y.cols;
    for (int s = 0; s < n; s++) {
        const float *el = c->x[0].data + (size_t)s * (size_t)(K * D);
        const float *first = c->n_x > 1 ? c->x[1].data + (size_t)s * (size_t)D : NULL;
        for (int e = 0; e < E; e++) {
            double sum = 0.0;
            for (int d = 0; d < D; d++) {
                if (goes_to(c, d) != e)
                    continue;
                if (first)
                    sum -= 0.5 * ((double)LOG_2PI + (double)first[d] * (double)first[d]);
                for (int k = 0; k < K; k++)
                    sum += (double)el[k * D + d];
            }
            c->y.data[s * E + e] = (float)(sum * (double)c->scale);
        }
    }
}

void mf_ref_reduce_back(const struct mf_call *c, int n, float *lane)
{
    int K = c->x[0].rows, D = c->x[0].cols, E = c->y.cols;
    (void)lane;
    mf_ref_zero(c, n);
    for (int s = 0; s < n; s++)
        for (int d = 0; d < D; d++)
            for (int k = 0; goes_to(c, d) >= 0 && k < K; k++)
                c->x[0].grad[(s * K + k) * D + d] += c->scale * c->y.grad[s * E + goes_to(c, d)];
}
