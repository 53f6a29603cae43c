/* act.h - activations of one number, and their derivatives: the formulas of the reference loops and of a GPU's kernels.
 */
#ifndef MF_DEV_ACT_H
#define MF_DEV_ACT_H

#include <math.h>

#include "dev/op.h"

/* act(x); its derivative to *slope. */
MF_EVERYWHERE static inline float mf_act_of(enum mf_act act, float x, float *slope)
{
    float y = x, d = 1.0f;
    if (act == MF_ACT_RELU) {
        y = x > 0.0f ? x : 0.0f;
        d = x > 0.0f ? 1.0f : 0.0f;
    } else if (act == MF_ACT_TANH) {
        y = tanhf(x);
        d = 1.0f - y * y;
    } else if (act == MF_ACT_MISH) { /* x tanh(log(1 + e^x)); past 20 the tanh is 1 in floats */
        float e = expf(x < 20.0f ? x : 20.0f), w = e * (e + 2.0f), t = w / (w + 2.0f);
        y = x * t;
        d = t + x * (1.0f - t * t) * e / (1.0f + e);
    } else if (act == MF_ACT_SILU) {
        float s = 1.0f / (1.0f + expf(-x));
        y = x * s;
        d = s * (1.0f + x * (1.0f - s));
    } else if (act == MF_ACT_GELU) { /* Hendrycks & Gimpel 2016, its tanh form */
        const float a = 0.7978845608f, b = 0.044715f;
        float t = tanhf(a * (x + b * x * x * x));
        y = 0.5f * x * (1.0f + t);
        d = 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * a * (1.0f + 3.0f * b * x * x);
    } else if (act == MF_ACT_GELU_ERF) { /* x times the normal distribution's probability below x */
        float p = 0.5f * (1.0f + erff(0.7071067812f * x));
        y = x * p;
        d = p + 0.3989422804f * x * expf(-0.5f * x * x);
    }
    *slope = d;
    return y;
}

/* The gradient g times the derivative, from what forward kept: y, and the derivative itself where it does not follow
 * from y (mf_act_keeps). 0 stays 0 whatever these are. */
MF_EVERYWHERE static inline float mf_act_back(enum mf_act act, float g, float y, float kept)
{
    if (g == 0.0f || act == MF_ACT_NONE)
        return g;
    return g * (act == MF_ACT_RELU ? (y > 0.0f ? 1.0f : 0.0f) : act == MF_ACT_TANH ? 1.0f - y * y : kept);
}

#endif
