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

/* Blocks of four to six rows by one panel, where nearly all products end. Twelve sums, sixteen weights and the numbers
 * of two rows are all registers there are: gcc, where it unrolls, moves sums about and counts every pointer by itself,
 * and a core that another thread shares has no slots for that. Eight turns are one, at a multiple of 32 bytes:
 * elsewhere they take up to 2 % longer. Of what is ahead some lines come in before each. All twelve sums are stored,
 * those of rows that are not there as zeros.
 */
/* clang-format off */
#define ROW(from, x, a, b)                                                                                             \
    "vbroadcastss " from ", %%ymm" x "\n\t"                                                                            \
    "vfmadd231ps %%ymm12, %%ymm" x ", %%ymm" a "\n\t"                                                                  \
    "vfmadd231ps %%ymm13, %%ymm" x ", %%ymm" b "\n\t"
#define TURN_4(k)                                                                                                      \
    "vmovups 64*" #k "(%[w]), %%ymm12\n\t"                                                                             \
    "vmovups 64*" #k "+32(%[w]), %%ymm13\n\t"                                                                          \
    ROW("4*" #k "(%[lo])", "14", "0", "1")                                                                             \
    ROW("4*" #k "(%[lo],%[row])", "15", "2", "3")                                                                      \
    ROW("4*" #k "(%[lo],%[row],2)", "14", "4", "5")                                                                    \
    ROW("4*" #k "(%[hi])", "15", "6", "7")
#define TURN_5(k) TURN_4(k) ROW("4*" #k "(%[hi],%[row])", "14", "8", "9")
#define TURN_6(k) TURN_5(k) ROW("4*" #k "(%[hi],%[row],2)", "15", "10", "11")
#define ZERO(i) "vxorps %%ymm" #i ", %%ymm" #i ", %%ymm" #i "\n\t"
#define KEEP(i) "vmovups %%ymm" #i ", 32*" #i "(%[sums])\n\t"
#define SUMS(what)                                                                                                     \
    what(0) what(1) what(2) what(3) what(4) what(5) what(6) what(7) what(8) what(9) what(10) what(11)
#define TALL(R)                                                                                                        \
    static void block_##R##_1(int K, const float *x, size_t ldx, const float *w, size_t apart, struct mf_ahead ahead,  \
                              float *sums)                                                                             \
    {                                                                                                                  \
        const float *lo = x, *hi = x + 3 * ldx, *next = ahead.at;                                                      \
        size_t eights = (size_t)K / 8, ones = (size_t)K % 8, left;                                                     \
        (void)apart;                                                                                                   \
        __asm__ volatile(SUMS(ZERO)                                                                                    \
                         "test %[eights], %[eights]\n\t"                                                               \
                         "jz 4f\n"                                                                                     \
                         ".p2align 5\n"                                                                                \
                         "1:\n\t"                                                                                      \
                         "mov %[lines], %[left]\n\t"                                                                   \
                         "test %[left], %[left]\n\t"                                                                   \
                         "jz 3f\n"                                                                                     \
                         "2:\n\t"                                                                                      \
                         "prefetcht1 (%[next])\n\t"                                                                    \
                         "add $64, %[next]\n\t"                                                                        \
                         "dec %[left]\n\t"                                                                             \
                         "jnz 2b\n"                                                                                    \
                         "3:\n\t"                                                                                      \
                         TURN_##R(0) TURN_##R(1) TURN_##R(2) TURN_##R(3)                                               \
                         TURN_##R(4) TURN_##R(5) TURN_##R(6) TURN_##R(7)                                               \
                         "add $32, %[lo]\n\t"                                                                          \
                         "add $32, %[hi]\n\t"                                                                          \
                         "add $512, %[w]\n\t"                                                                          \
                         "dec %[eights]\n\t"                                                                           \
                         "jnz 1b\n"                                                                                    \
                         "4:\n\t"                                                                                      \
                         "test %[ones], %[ones]\n\t"                                                                   \
                         "jz 6f\n"                                                                                     \
                         "5:\n\t"                                                                                      \
                         TURN_##R(0)                                                                                   \
                         "add $4, %[lo]\n\t"                                                                           \
                         "add $4, %[hi]\n\t"                                                                           \
                         "add $64, %[w]\n\t"                                                                           \
                         "dec %[ones]\n\t"                                                                             \
                         "jnz 5b\n"                                                                                    \
                         "6:\n\t"                                                                                      \
                         SUMS(KEEP)                                                                                    \
                         : [lo] "+&r"(lo), [hi] "+&r"(hi), [w] "+&r"(w), [next] "+&r"(next), [left] "=&r"(left),       \
                           [eights] "+&r"(eights), [ones] "+&r"(ones)                                                  \
                         : [row] "r"(sizeof *x * ldx), [sums] "r"(sums), [lines] "r"(ahead.lines)                      \
                         : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",     \
                           "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");                              \
    }
/* clang-format on */

#include "dev/kern_math.inc"
#include "dev/kern_gemm.inc"
#include "dev/kern_norm.inc"
#include "dev/kern_attention.inc"

const struct mf_kern mf_kern_avx2 = {
    "avx2",  pack, times,     epilogue, pack_rows,     outer, act_all,   act_back,  add_to,         exp_all,
    log_all, norm, norm_back, modulate, modulate_back, gate,  gate_back, attention, attention_back, attention_work,
};
