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

#define TALL(R) BLOCK(R, 1)

#include "dev/kern_math.inc"
#include "dev/kern_gemm.inc"
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
