/* kern_base.c - the inner loops for any processor: a product, then a sum. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "dev/kern.h"
#include "dev/ref.h"

typedef float v8 __attribute__((vector_size(32)));

static inline __attribute__((always_inline)) v8 fma8(v8 a, v8 b, v8 c)
{
    return a * b + c;
}

#include "dev/kern_math.inc"

INLINE unsigned bits8(i8 x)
{
    unsigned bits = 0;
    for (int i = 0; i < 8; i++)
        bits |= (unsigned)(x[i] != 0) << i;
    return bits;
}

#define FOUR_ROWS(V)                                                                                                   \
    INLINE void turn_##V(size_t k, const float *x, size_t ldx, const float *w, v8 a[4][3])                             \
    {                                                                                                                  \
        for (size_t r = 0; r < 4; r++)                                                                                 \
            for (size_t v = 0; v < V; v++)                                                                             \
                a[r][v] = fma8(all8(x[r * ldx + k]), load8(w + (k * V + v) * 8), a[r][v]);                             \
    }                                                                                                                  \
    INLINE void rows_##V(int K, const float *x, size_t ldx, const float *w, const float *ahead, const float *later,    \
                         v8 a[4][3])                                                                                   \
    {                                                                                                                  \
        (void)ahead, (void)later;                                                                                      \
        memset(a, 0, sizeof(v8[4][3]));                                                                                \
        for (int k = 0; k < K; k++)                                                                                    \
            turn_##V((size_t)k, x, ldx, w, a);                                                                         \
    }                                                                                                                  \
    INLINE void listed_rows_##V(struct places l, const float *x, size_t ldx, const float *w, const float *ahead,       \
                                v8 a[4][3])                                                                            \
    {                                                                                                                  \
        (void)ahead;                                                                                                   \
        memset(a, 0, sizeof(v8[4][3]));                                                                                \
        for (int i = 0; i < l.n; i++)                                                                                  \
            turn_##V(l.at[i] / 4, x, ldx, w, a);                                                                       \
    }

#include "dev/kern_gemm.inc"
#include "dev/kern_outer.inc"
#include "dev/kern_norm.inc"
#include "dev/kern_attention.inc"

const struct mf_kern mf_kern_base = {
    "base",  pack, times,     epilogue, pack_rows,     outer, act_all,   act_back,  add_to,         exp_all,
    log_all, norm, norm_back, modulate, modulate_back, gate,  gate_back, attention, attention_back, attention_work,
};

const struct mf_kern *mf_kern(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &mf_kern_avx2 : &mf_kern_base;
}
