/* kern_avx2.c - the inner loops with AVX2 and FMA; the Makefile compiles this file for them. */
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "dev/kern.h"
#include "dev/ref.h"

typedef float v8 __attribute__((vector_size(32)));

static inline __attribute__((always_inline)) v8 fma8(v8 a, v8 b, v8 c)
{
    return (v8)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}

#include "dev/kern_math.inc"
#include "dev/kern_gemm.inc"
#include "dev/kern_norm.inc"
#include "dev/kern_attention.inc"

const struct mf_kern mf_kern_avx2 = {
    "avx2",  pack, times,     epilogue, outer,         columns, act_all,   act_back,  add_to,         exp_all,
    log_all, norm, norm_back, modulate, modulate_back, gate,    gate_back, attention, attention_back, attention_work,
};
