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

/* A bit for each that is not zero. */
INLINE unsigned bits8(i8 x)
{
    return (unsigned)_mm256_movemask_ps((__m256)(v8)(x == 0)) ^ 0xff;
}

/* Four rows by a panel of two or three vectors: twelve sums, three vectors of weights and one number are all registers
 * there are, and of all such tiles four by three takes the fewest instructions for a multiply-add, 19 for 12. Where two
 * threads share a core each has half of its slots, so that instructions count; gcc, where it unrolls, would add moves
 * and counters. Of what is ahead a line comes in before eight turns, and before four of a list.
 */
/* clang-format off */
#define LOAD_2(at)                                                                                                     \
    "vmovups " at ", %%ymm12\n\t"                                                                                      \
    "vmovups 32+" at ", %%ymm13\n\t"
#define LOAD_3(at) LOAD_2(at) "vmovups 64+" at ", %%ymm14\n\t"
#define ROW_2(at, a, b, c)                                                                                             \
    "vbroadcastss " at ", %%ymm15\n\t"                                                                                 \
    "vfmadd231ps %%ymm12, %%ymm15, %t[s" a "]\n\t"                                                                     \
    "vfmadd231ps %%ymm13, %%ymm15, %t[s" b "]\n\t"
#define ROW_3(at, a, b, c) ROW_2(at, a, b, c) "vfmadd231ps %%ymm14, %%ymm15, %t[s" c "]\n\t"
#define TURN(V, k)                                                                                                     \
    LOAD_##V("32*" #V "*" #k "(%[w])")                                                                                 \
    ROW_##V("4*" #k "(%[x])", "0", "1", "2")                                                                           \
    ROW_##V("4*" #k "(%[x],%[row])", "3", "4", "5")                                                                    \
    ROW_##V("4*" #k "(%[x],%[row],2)", "6", "7", "8")                                                                  \
    ROW_##V("4*" #k "(%[x],%[row3])", "9", "10", "11")
#define WEIGHT_2 "lea (%%rax,%%rax), %%rcx\n\t" /* of 4 k: an eighth of 64 k bytes, and of 96 k */
#define WEIGHT_3 "lea (%%rax,%%rax,2), %%rcx\n\t"
#define LISTED_TURN(V, i)                                                                                              \
    "movl 4*" #i "(%[at]), %%eax\n\t"                                                                                  \
    WEIGHT_##V                                                                                                         \
    LOAD_##V("0(%[w],%%rcx,8)")                                                                                        \
    ROW_##V("(%[x0],%%rax)", "0", "1", "2")                                                                            \
    ROW_##V("(%[x1],%%rax)", "3", "4", "5")                                                                            \
    ROW_##V("(%[x2],%%rax)", "6", "7", "8")                                                                            \
    ROW_##V("(%[x3],%%rax)", "9", "10", "11")
#define ZERO(i) "vxorps %x[s" #i "], %x[s" #i "], %x[s" #i "]\n\t"
#define ZEROS                                                                                                          \
    ZERO(0) ZERO(1) ZERO(2) ZERO(3) ZERO(4) ZERO(5) ZERO(6) ZERO(7) ZERO(8) ZERO(9) ZERO(10) ZERO(11)
#define SUMS                                                                                                           \
    [s0] "=x"(a[0][0]), [s1] "=x"(a[0][1]), [s2] "=x"(a[0][2]), [s3] "=x"(a[1][0]), [s4] "=x"(a[1][1]),                \
    [s5] "=x"(a[1][2]), [s6] "=x"(a[2][0]), [s7] "=x"(a[2][1]), [s8] "=x"(a[2][2]), [s9] "=x"(a[3][0]),                \
    [s10] "=x"(a[3][1]), [s11] "=x"(a[3][2])
#define FOUR_ROWS(V)                                                                                                   \
    INLINE void rows_##V(int K, const float *x, size_t ldx, const float *w, const float *ahead, const float *later,    \
                         v8 a[4][3])                                                                                   \
    {                                                                                                                  \
        const float *end = x + (K & ~7);                                                                               \
        size_t ones = (size_t)K & 7, row = sizeof *x * ldx, next = (size_t)ahead - 2 * (size_t)x;                      \
        size_t more = (size_t)later - 2 * (size_t)x;                                                                   \
        __asm__ volatile(ZEROS                                                                                         \
                         "cmp %[x], %[end]\n\t"                                                                        \
                         "je 2f\n"                                                                                     \
                         ".p2align 5\n"                                                                                \
                         "1:\n\t"                                                                                      \
                         "prefetcht1 (%[next],%[x],2)\n\t"                                                             \
                         "prefetcht1 (%[more],%[x],2)\n\t"                                                             \
                         TURN(V, 0) TURN(V, 1) TURN(V, 2) TURN(V, 3) TURN(V, 4) TURN(V, 5) TURN(V, 6) TURN(V, 7)       \
                         "add $256*" #V ", %[w]\n\t"                                                                   \
                         "add $32, %[x]\n\t"                                                                           \
                         "cmp %[x], %[end]\n\t"                                                                        \
                         "jne 1b\n"                                                                                    \
                         "2:\n\t"                                                                                      \
                         "test %[ones], %[ones]\n\t"                                                                   \
                         "jz 4f\n"                                                                                     \
                         "3:\n\t"                                                                                      \
                         TURN(V, 0)                                                                                    \
                         "add $32*" #V ", %[w]\n\t"                                                                    \
                         "add $4, %[x]\n\t"                                                                            \
                         "dec %[ones]\n\t"                                                                             \
                         "jnz 3b\n"                                                                                    \
                         "4:"                                                                                          \
                         : [x] "+&r"(x), [w] "+&r"(w), [ones] "+&r"(ones), SUMS                                        \
                         : [end] "r"(end), [row] "r"(row), [row3] "r"(3 * row), [next] "r"(next), [more] "r"(more)     \
                         : "memory", "cc", "xmm12", "xmm13", "xmm14", "xmm15");                                        \
    }                                                                                                                  \
    INLINE void listed_rows_##V(struct places l, const float *x, size_t ldx, const float *w, const float *ahead,       \
                              v8 a[4][3])                                                                              \
    {                                                                                                                  \
        const uint32_t *at = l.at, *end = at + l.n;                                                                    \
        size_t next = (size_t)ahead - 4 * (size_t)at;                                                                  \
        __asm__ volatile(ZEROS                                                                                         \
                         "cmp %[at], %[end]\n\t"                                                                       \
                         "je 2f\n"                                                                                     \
                         ".p2align 5\n"                                                                                \
                         "1:\n\t"                                                                                      \
                         "prefetcht1 (%[next],%[at],4)\n\t"                                                            \
                         LISTED_TURN(V, 0) LISTED_TURN(V, 1) LISTED_TURN(V, 2) LISTED_TURN(V, 3)                       \
                         "add $16, %[at]\n\t"                                                                          \
                         "cmp %[at], %[end]\n\t"                                                                       \
                         "jne 1b\n"                                                                                    \
                         "2:"                                                                                          \
                         : [at] "+&r"(at), SUMS                                                                        \
                         : [end] "r"(end), [w] "r"(w), [next] "r"(next), [x0] "r"(x), [x1] "r"(x + ldx),               \
                           [x2] "r"(x + 2 * ldx), [x3] "r"(x + 3 * ldx)                                                \
                         : "memory", "cc", "rax", "rcx", "xmm12", "xmm13", "xmm14", "xmm15");                          \
    }
/* clang-format on */

#include "dev/kern_gemm.inc"
#include "dev/kern_outer.inc"
#include "dev/kern_norm.inc"
#include "dev/kern_attention.inc"

const struct mf_kern mf_kern_avx2 = {
    "avx2",  pack, times,     epilogue, pack_rows,     outer, act_all,   act_back,  add_to,         exp_all,
    log_all, norm, norm_back, modulate, modulate_back, gate,  gate_back, attention, attention_back, attention_work,
};
