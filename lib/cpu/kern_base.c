/* kern_base.c - the inner loops for any processor, to the bits of the others: a fused multiply-add at a time. */
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "cpu/kern.h"
#include "op/how.h"

typedef float v8 __attribute__((vector_size(32)));

static inline __attribute__((always_inline)) v8 fma8(v8 a, v8 b, v8 c)
{
    for (int i = 0; i < 8; i++)
        c[i] = fmaf(a[i], b[i], c[i]);
    return c;
}

static inline __attribute__((always_inline)) v8 some8(const float *p, int n)
{
    v8 x = {0};
    memcpy(&x, p, sizeof *p * (size_t)n);
    return x;
}

static inline __attribute__((always_inline)) void keep8(float *p, v8 x, int n)
{
    memcpy(p, &x, sizeof *p * (size_t)n);
}

#define LANES 8
#define PAIR  1
#define macw  fmaw
#include "cpu/kern_math.inc"

INLINE unsigned bitsw(iw x)
{
    unsigned bits = 0;
    for (int i = 0; i < 8; i++)
        bits |= (unsigned)(x[i] != 0) << i;
    return bits;
}

#define TILES(T) T(1) T(2) T(3) T(4) T(5) T(6)
#define FOUR_ROWS(V)                                                                                                   \
    INLINE void turn_##V(size_t k, const float *x, size_t ldx, const float *w, vw a[4][3])                             \
    {                                                                                                                  \
        for (size_t r = 0; r < 4; r++)                                                                                 \
            for (size_t v = 0; v < V; v++)                                                                             \
                a[r][v] = fmaw(allw(x[r * ldx + k]), loadw(w + (k * V + v) * LANES), a[r][v]);                         \
    }                                                                                                                  \
    INLINE void rows_##V(int K, const float *x, size_t ldx, const float *w, const float *ahead, const float *later,    \
                         vw a[4][3])                                                                                   \
    {                                                                                                                  \
        (void)ahead, (void)later;                                                                                      \
        memset(a, 0, sizeof(vw[4][3]));                                                                                \
        for (int k = 0; k < K; k++)                                                                                    \
            turn_##V((size_t)k, x, ldx, w, a);                                                                         \
    }                                                                                                                  \
    INLINE void more_rows_##V(int K, const float *x, size_t ldx, const float *w, const float *from, vw a[4][3])        \
    {                                                                                                                  \
        memcpy(a, from, sizeof(vw[4][3]));                                                                             \
        for (int k = 0; k < K; k++)                                                                                    \
            turn_##V((size_t)k, x, ldx, w, a);                                                                         \
    }                                                                                                                  \
    INLINE void listed_rows_##V(struct places l, const float *x, size_t ldx, const float *w, const float *ahead,       \
                                vw a[4][3])                                                                            \
    {                                                                                                                  \
        (void)ahead;                                                                                                   \
        memset(a, 0, sizeof(vw[4][3]));                                                                                \
        for (int i = 0; i < l.n; i++)                                                                                  \
            turn_##V(l.at[i] / 4, x, ldx, w, a);                                                                       \
    }

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

KERN_TABLE(base)
