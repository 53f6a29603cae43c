#include "cpu/kern.h"

#include <stdlib.h>
#include <string.h>

/* The words of MF_CPU, each allowing more than the one before; unset: what is fastest. */
enum most { BASE, AVX2, AVX512, AVX512_BF16, FASTEST };

static enum most allowed(void)
{
    static const char *const words[] = {"base", "avx2", "avx512", "avx512_bf16"};
    const char *asked = getenv("MF_CPU");
    int i = asked ? BASE : FASTEST;
    while (i < FASTEST && strcmp(asked, words[i]))
        i++;
    return (enum most)i;
}

bool mf_kern_is_known(void)
{
    return !getenv("MF_CPU") || allowed() != FASTEST;
}

static const struct mf_kern *choose(enum most most)
{
    if (most == BASE || !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return &mf_kern_base;
    return most == AVX2 || !__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vl") ||
                   !__builtin_cpu_supports("avx512dq")
               ? &mf_kern_avx2
               : &mf_kern_avx512;
}

const struct mf_kern *mf_kern(void)
{
    static const struct mf_kern *chosen;
    if (!__atomic_load_n(&chosen, __ATOMIC_RELAXED))
        __atomic_store_n(&chosen, choose(allowed()), __ATOMIC_RELAXED);
    return __atomic_load_n(&chosen, __ATOMIC_RELAXED);
}

/* Pairs of bf16 are twice as fast as floats on AMD's Zen 4 (233 GF/s of a core to 117), and half as fast on Intel's
 * Sapphire and Emerald Rapids, which start one such instruction in two cycles and two fp32 multiply-adds in one:
 * products reach 85 GF/s of a core in pairs, 161 in fp32 and 157 on rounded operands, and an update of 4096 rows
 * takes 1.9 times, and 1.05 times, fp32's time. So pairs are for AMD; elsewhere MF_CPU=avx512_bf16 takes them. The
 * choice is by the processor's maker, since one by a timing at start could change bits from run to run.
 */
const struct mf_products *mf_products(bool bf16)
{
    const struct mf_kern *k = mf_kern();
    const enum most most = allowed();
    const bool pays = most == AVX512_BF16 || (most == FASTEST && __builtin_cpu_is("amd"));
    if (!bf16)
        return k->fp32;
    return pays && k == &mf_kern_avx512 && __builtin_cpu_supports("avx512bf16") ? &mf_products_avx512_bf16 : k->bf16;
}
