/* moments.h - range, mean and spread of numbers that come one by one (Welford, 1962). Zeroed: of none. */
#ifndef MF_BASE_MOMENTS_H
#define MF_BASE_MOMENTS_H

#include <stdint.h>

struct mf_moments {
    uint64_t n;
    double min, max, mean, square; /* square: sum of squared distances from the mean */
};

static inline void mf_moments_add(struct mf_moments *m, double x)
{
    double d = x - m->mean;
    m->min = m->n && m->min < x ? m->min : x;
    m->max = m->n && m->max > x ? m->max : x;
    m->mean += d / (double)++m->n;
    m->square += d * (x - m->mean);
}

#endif
