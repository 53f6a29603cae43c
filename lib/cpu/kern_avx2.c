/* kern_avx2.c - the inner loops with AVX2 and FMA; the Makefile compiles this file for them. */
#include <immintrin.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "cpu/kern.h"
#include "op/how.h"

typedef float v8 __attribute__((vector_size(32)));

static inline __attribute__((always_inline)) v8 fma8(v8 a, v8 b, v8 c)
{
    return (v8)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}

/* n < 8 floats by masks: a call of memcpy would send all vectors of a loop to the stack. */
static inline __attribute__((always_inline)) __m256i first8(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline __attribute__((always_inline)) v8 some8(const float *p, int n)
{
    return (v8)_mm256_maskload_ps(p, first8(n));
}

static inline __attribute__((always_inline)) void keep8(float *p, v8 x, int n)
{
    _mm256_maskstore_ps(p, first8(n), (__m256)x);
}

#define LANES 8
#define PAIR  1
#define macw  fmaw
#include "cpu/kern_math.inc"

/* A bit for each that is not zero. */
INLINE unsigned bitsw(iw x)
{
    return (unsigned)_mm256_movemask_ps((__m256)(v8)(x == 0)) ^ 0xff;
}

#define VEC      "ymm"
#define BYTES    "32"
#define SUM      "t"
#define REGISTER "x"
#define SCALE
#define MULTIPLY_ADD "vfmadd231ps"
#define TILES(T)     T(1) T(2) T(3) T(4) T(5) T(6)
#include "cpu/kern_rows.inc"
#include "cpu/kern_gemm.inc"
#include "cpu/kern_stored.inc"
#include "cpu/kern_outer.inc"
#include "cpu/kern_fp32.inc"
#include "cpu/kern_each.inc"
#include "cpu/kern_norm.inc"
#include "cpu/kern_heads.inc"
#include "cpu/kern_attention.inc"
#include "cpu/kern_map.inc"
#include "cpu/kern_block.inc"

#include "cpu/kern_table.inc"

KERN_TABLE(avx2)
