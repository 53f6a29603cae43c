#include "base/learnable.h"

#include <math.h>

static const double MOST = 1e15;

bool mf_learnable(double x)
{
    return fabs(x) <= MOST;
}

/* Without a branch in the usual case. */
size_t mf_unlearnable_at(const float *x, size_t n)
{
    int bad = 0;
    for (size_t i = 0; i < n; i++)
        bad |= !(fabsf(x[i]) <= (float)MOST);
    for (size_t i = 0; bad && i < n; i++)
        if (!mf_learnable((double)x[i]))
            return i;
    return n;
}

const char *mf_unlearnable_why(double x)
{
    return isfinite(x) ? ", beyond the 1e15 up to which float32 can learn" : "";
}
