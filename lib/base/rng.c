#include "base/rng.h"

#include <math.h>

uint32_t mf_rng_u32(struct mf_rng *rng)
{
    if (rng->left == 0)
        mf_rng_block(rng);
    return rng->word[4 - rng->left--];
}

uint32_t mf_rng_below(struct mf_rng *rng, uint32_t n)
{
    uint32_t skip = (uint32_t)(-n) % n, x;
    do
        x = mf_rng_u32(rng);
    while (x < skip);
    return x % n;
}

float mf_rng_uniform(struct mf_rng *rng)
{
    return mf_rng_unit(mf_rng_u32(rng));
}

float mf_rng_range(struct mf_rng *rng, float low, float high)
{
    return low + (high - low) * mf_rng_uniform(rng);
}

void mf_rng_normal(struct mf_rng *rng, float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 2) {
        double radius = sqrt(-2.0 * log(1.0 - (double)mf_rng_uniform(rng)));
        double angle = 6.283185307179586 * (double)mf_rng_uniform(rng);
        x[i] = (float)(radius * cos(angle));
        if (i + 1 < n)
            x[i + 1] = (float)(radius * sin(angle));
    }
}
