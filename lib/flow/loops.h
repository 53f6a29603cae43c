/* loops.h - the elements of the flow's operations (ops.h), for the reference loops and for a GPU's kernels.
 *
 * coef: the row's three coefficients. s: the std of the element.
 */
#ifndef MF_FLOW_LOOPS_H
#define MF_FLOW_LOOPS_H

#include <math.h>

#include "base/everywhere.h"
#include "dev/ref.h"
#include "flow/ops.h"

static const float MF_LOG_2PI = 1.8378770664093453f;
static const float MF_SQUASHED = 1e-6f; /* added to the slope of a tanh under a logarithm */

MF_EVERYWHERE static inline float mf_flow_kept(float x, float limit)
{
    return limit <= 0.0f ? x : x < -limit ? -limit : x > limit ? limit : x;
}

/* The derivative of that is 1, else 0. */
MF_EVERYWHERE static inline bool mf_flow_passes(float x, float limit)
{
    return !(limit > 0.0f && fabsf(x) > limit);
}

/* flow_mean, before its limit. */
MF_EVERYWHERE static inline float mf_flow_mean_at(const float *coef, float x, float v)
{
    return coef[0] * x + coef[1] * v;
}

/* Coefficient 2, times the row's std where there is one. */
MF_EVERYWHERE static inline float mf_flow_std_at(const float *coef, const float *std, int d)
{
    return std ? coef[2] * std[d] : coef[2];
}

/* Where s is 0, eps is not used: it may be NaN. */
MF_EVERYWHERE static inline float mf_flow_noise_at(const struct mf_flow_noise_how *how, float mean, float s, float eps)
{
    return mf_flow_kept(s == 0.0f ? mean : mean + s * mf_flow_kept(eps, how->clip), how->limit);
}

MF_EVERYWHERE static inline float mf_flow_logprob_at(float next, float mean, float s)
{
    float z = (next - mean) / s;
    return s == 0.0f ? 0.0f : -logf(s) - 0.5f * MF_LOG_2PI - 0.5f * z * z;
}

/* The gradient of a mean, where that of its element is g and s is not 0; that of next is its negative. */
MF_EVERYWHERE static inline float mf_flow_logprob_by_mean(float g, float next, float mean, float s)
{
    float z = (next - mean) / s;
    return g * z / s;
}

/* The gradient of the row's std. */
MF_EVERYWHERE static inline float mf_flow_logprob_by_std(float g, const float *coef, float next, float mean, float s)
{
    float z = (next - mean) / s;
    return coef[2] * g * (z * z - 1.0f) / s;
}

/* bounds: lmin, lmax. */
MF_EVERYWHERE static inline float mf_noise_std_at(const float *bounds, float u)
{
    float low = bounds[0], high = bounds[1];
    return expf(0.5f * (low + (high - low) * 0.5f * (tanhf(u) + 1.0f)));
}

/* The gradient of u, where that of std = mf_noise_std_at(bounds, u) is g. */
MF_EVERYWHERE static inline float mf_noise_std_by_u(float g, const float *bounds, float u, float std)
{
    float t = tanhf(u);
    return g * std * 0.25f * (bounds[1] - bounds[0]) * (1.0f - t * t);
}

MF_EVERYWHERE static inline double mf_flow_entropy_at(float std)
{
    return 0.5 * ((double)MF_LOG_2PI + 1.0) + (double)logf(std);
}

MF_EVERYWHERE static inline float mf_flow_entropy_by_std(float g, float scale, float std)
{
    return g * scale / std;
}

/* ---- the latent actor's Gaussian ---- */

MF_EVERYWHERE static inline float mf_latent_std_at(const struct mf_latent_std_how *how, float x)
{
    return expf(x < how->low ? how->low : x > how->high ? how->high : x);
}

/* The gradient of x, where that of std = mf_latent_std_at(how, x) is g. */
MF_EVERYWHERE static inline float mf_latent_std_by(const struct mf_latent_std_how *how, float g, float x, float std)
{
    return x < how->low || x > how->high ? 0.0f : g * std;
}

MF_EVERYWHERE static inline float mf_latent_draw_at(float magnitude, float mean, float std, float eps)
{
    float u = mean + std * eps;
    return magnitude > 0.0f ? magnitude * tanhf(u) : u;
}

/* The gradient of the mean, where that of the draw is g; the std's is eps times that. */
MF_EVERYWHERE static inline float mf_latent_draw_by_mean(float g, float magnitude, float mean, float std, float eps)
{
    float t = tanhf(mean + std * eps);
    return magnitude > 0.0f ? g * magnitude * (1.0f - t * t) : g;
}

MF_EVERYWHERE static inline float mf_latent_logpi_at(float mean, float std, float eps)
{
    float t = tanhf(mean + std * eps);
    return -logf(std) - 0.5f * MF_LOG_2PI - 0.5f * eps * eps - logf(1.0f - t * t + MF_SQUASHED);
}

MF_EVERYWHERE static inline float mf_latent_logpi_by_mean(float g, float mean, float std, float eps)
{
    float t = tanhf(mean + std * eps), slope = 1.0f - t * t;
    return g * 2.0f * t * slope / (slope + MF_SQUASHED);
}

MF_EVERYWHERE static inline float mf_latent_logpi_by_std(float g, float mean, float std, float eps)
{
    return mf_latent_logpi_by_mean(g, mean, std, eps) * eps - g / std;
}

/* The columns [from, to) of the elements that column e of a reduction's result sums. D: all columns. */
MF_EVERYWHERE static inline void mf_reduce_columns(const struct mf_reduce_how *how, int D, int e, int *from, int *to)
{
    int width = how->to == MF_REDUCE_TOKEN ? 1 : how->to == MF_REDUCE_ACTION ? how->A : how->C * how->A;
    *from = how->to == MF_REDUCE_ALL ? 0 : how->offset * how->A + e * width;
    *to = how->to == MF_REDUCE_ALL ? D : *from + width;
}

/* The column of a reduction's result to which column d of the elements is added; -1: none (not executed). */
MF_EVERYWHERE static inline int mf_reduce_column(const struct mf_reduce_how *how, int d)
{
    int e = d - how->offset * how->A;
    if (how->to == MF_REDUCE_ALL)
        return 0;
    if (e < 0 || e >= how->C * how->A)
        return -1;
    return how->to == MF_REDUCE_TOKEN ? e : how->to == MF_REDUCE_ACTION ? e / how->A : 0;
}

/* -log N(first; 0, 1) */
MF_EVERYWHERE static inline double mf_reduce_first_at(float first)
{
    return 0.5 * ((double)MF_LOG_2PI + (double)first * (double)first);
}

#endif
