/* rng.h - counter-based random numbers: Philox 4x32-10 (Salmon et al., SC 2011).
 *
 * A stream is named, not carried: (seed, purpose, environment, episode, step). So the number of threads, slices or
 * environments does not change any stream, and two seeds or purposes share no numbers.
 */
#ifndef MF_BASE_RNG_H
#define MF_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

#include "base/everywhere.h"

/* Purposes. Training and evaluation never share a stream. */
enum mf_purpose {
    MF_RNG_INIT,    /* weights of a fresh network */
    MF_RNG_RESET,   /* an environment's initial state */
    MF_RNG_CHAIN,   /* initial noise and SDE noise of a denoising chain */
    MF_RNG_INDEX,   /* which denoising step is stochastic */
    MF_RNG_EXPERT,  /* a scripted expert's imperfection */
    MF_RNG_SHUFFLE, /* minibatches */
    MF_RNG_CLONE,   /* times and noises of the cloning loss */
    MF_RNG_EVAL_RESET,
    MF_RNG_EVAL_CHAIN,
    MF_RNG_TEST,
    MF_RNG_DROPOUT, /* of a cloning's attention */
    MF_RNG_SHIFT,   /* random shift of pictures */
    MF_RNG_SAC,     /* minibatches of a replay buffer, and their noise */
    MF_RNG_FPO,     /* times and noises of FPO's losses, and their keys */
    MF_RNG_REFLOW,  /* times of the reflow consistency loss */
    MF_RNG_WEIGH,   /* noises and pairs of critics of offline value functions */
    MF_RNG_AUGMENT, /* windows, angles and colors of pictures in cloning */
};

struct mf_rng {
    uint32_t key[2];     /* the seed */
    uint32_t counter[4]; /* draw, step, episode, environment << 8 | purpose */
    uint32_t word[4];    /* the block in use */
    int left;            /* unused words in it */
};

MF_EVERYWHERE static inline struct mf_rng mf_rng_at(uint64_t seed, enum mf_purpose purpose, uint32_t environment,
                                                    uint32_t episode, uint32_t step)
{
    struct mf_rng rng = {{(uint32_t)seed, (uint32_t)(seed >> 32)},
                         {0, step, episode, environment << 8 | (uint32_t)purpose},
                         {0, 0, 0, 0},
                         0};
    return rng;
}

/* The next four words. */
MF_EVERYWHERE static inline void mf_rng_block(struct mf_rng *rng)
{
    uint32_t c[4] = {rng->counter[0]++, rng->counter[1], rng->counter[2], rng->counter[3]},
             k[2] = {rng->key[0], rng->key[1]};
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
        rng->word[i] = c[i];
    rng->left = 4;
}

/* [0, 1), 24 bits */
MF_EVERYWHERE static inline float mf_rng_unit(uint32_t word)
{
    return (float)(word >> 8) / 16777216.0f;
}

uint32_t mf_rng_u32(struct mf_rng *rng);
uint32_t mf_rng_below(struct mf_rng *rng, uint32_t n);         /* 0..n-1, unbiased; n > 0 */
float mf_rng_uniform(struct mf_rng *rng);                      /* [0, 1), 24 bits */
float mf_rng_range(struct mf_rng *rng, float low, float high); /* [low, high) */
void mf_rng_normal(struct mf_rng *rng, float *x, size_t n);    /* n of N(0, 1), Box-Muller */

#endif
