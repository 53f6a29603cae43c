/* loops.h - elements of operations (ops.h), for the reference loops and for a GPU's kernels. */
#ifndef MF_OP_LOOPS_H
#define MF_OP_LOOPS_H

#include <math.h>

#include "base/everywhere.h"
#include "op/how.h"

/* w x; 0 where w is 0, even if x is NaN. */
MF_EVERYWHERE static inline float mf_weighed(float w, float x)
{
    return w == 0.0f ? 0.0f : w * x;
}

MF_EVERYWHERE static inline double mf_squared_error(float a, float b)
{
    return ((double)a - (double)b) * ((double)a - (double)b);
}

/* The row that an index names, of so many; -1: none. */
MF_EVERYWHERE static inline int mf_lookup_row(float index, int rows)
{
    return index >= 0.0f && index < (float)rows ? (int)index : -1;
}

/* x1 cos - x2 sin, and its adjoint x1 cos + x2 sin. */
MF_EVERYWHERE static inline float mf_turned(float x1, float x2, float c, float s)
{
    return fmaf(x1, c, -x2 * s);
}

/* scale t f_j, of which a sinusoid has the sine and the cosine; half: its frequencies. */
MF_EVERYWHERE static inline float mf_sinusoid_angle(float scale, float t, int j, int half)
{
    double f = exp(-log(1e4) * j / (half > 1 ? half - 1 : 1));
    return scale * t * (float)f;
}

/* Wave j of `half` at t: its sine and cosine. */
MF_EVERYWHERE static inline void mf_sinusoid_wave(const struct mf_sinusoid_how *how, float t, int j, int half,
                                                  float *sine, float *cosine)
{
    if (how->wave == MF_WAVE_FALLING) {
        float angle = mf_sinusoid_angle(how->scale, t, j, half);
        *sine = sinf(angle);
        *cosine = cosf(angle);
    } else {
        double angle = (double)t * how->first * pow(how->ratio, j);
        *sine = (float)sin(angle);
        *cosine = (float)cos(angle);
    }
}

#endif
