/* loops.h - elements of operations (ops.h), for the reference loops and for a GPU's kernels. */
#ifndef MF_OP_LOOPS_H
#define MF_OP_LOOPS_H

#include <math.h>

#include "base/everywhere.h"

/* w x; 0 where w is 0, even if x is NaN. */
MF_EVERYWHERE static inline float mf_weighed(float w, float x)
{
    return w == 0.0f ? 0.0f : w * x;
}

MF_EVERYWHERE static inline double mf_squared_error(float a, float b)
{
    return ((double)a - (double)b) * ((double)a - (double)b);
}

/* scale t f_j, of which a sinusoid has the sine and the cosine; half: its frequencies. */
MF_EVERYWHERE static inline float mf_sinusoid_angle(float scale, float t, int j, int half)
{
    double f = exp(-log(1e4) * j / (half > 1 ? half - 1 : 1));
    return scale * t * (float)f;
}

#endif
