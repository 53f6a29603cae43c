#include "base/rng.h"

#include <math.h>

static void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]}, k[2] = {key[0], key[1]};
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k[1],
                            (uint32_t)a};
        for (int i = 0; i < 4; i++)
            c[i] = next[i];
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++)
        out[i] = c[i];
}

struct mf_rng mf_rng_at(uint64_t seed, enum mf_purpose purpose, uint32_t environment, uint32_t episode, uint32_t step)
{
    return (struct mf_rng){
        .key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
        .counter = {0, step, episode, environment << 8 | (uint32_t)purpose},
    };
}

uint32_t mf_rng_u32(struct mf_rng *rng)
{
    if (rng->left == 0) {
        philox(rng->counter, rng->key, rng->word);
        rng->counter[0]++;
        rng->left = 4;
    }
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
    return (float)(mf_rng_u32(rng) >> 8) / 16777216.0f;
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
