/* kern.h - the inner loops of the cpu device, compiled once per instruction set.
 *
 * kern_avx2.c and kern_base.c include the same kern_math.inc, kern_gemm.inc,
 * kern_outer.inc, kern_norm.inc and kern_attention.inc over their own eight
 * floats wide multiply-add and their own four rows of a product, which AVX2
 * has in assembly. A row's bits are the same in every block, tail and
 * position: what is left of a vector goes through the same instructions,
 * padded.
 */
#ifndef MF_DEV_KERN_H
#define MF_DEV_KERN_H

#include "dev/gemm.h"

enum { MF_ROWS = 4, MF_WIDE = 24, MF_NARROW = 16 }; /* rows of a block; columns of packed panels */

struct mf_outer {
    int M, O, I;
    const int *live;
    const float *d, *x; /* (.., O), (.., I) */
    bool sets;
    float *dw, *work; /* (O, lddw); mf_kern_work floats */
    int lddw;
};

struct mf_kern {
    const char *name;

    /* Panels [N/24][K][24] of w(k, n), the last one or two 16 wide, zero beyond N. */
    void (*pack)(struct mf_pack *p, const float *W, int ldw, bool turned);
    void (*times)(const struct mf_pack *p, int M, const float *x, float *y, const struct mf_epilogue *e);
    void (*epilogue)(int M, int N, float *y, const struct mf_epilogue *e); /* where another route made y = x w */
    /* dw(o, i) += sum_m d(m, o) x(m, i), or = where it sets, over the rows named in live: first they are packed into
     * work, then multiplied. Either may be done in parts, those of packing all before. */
    void (*pack_rows)(const struct mf_outer *o, int part, int parts);
    void (*outer)(const struct mf_outer *o, int part, int parts);

    void (*act)(enum mf_act act, size_t n, const float *x, float *y, float *slope);
    /* g *= act'; true when any of g is not zero */
    bool (*act_back)(enum mf_act act, size_t n, float *g, const float *y, const float *slope);
    void (*add)(size_t n, float *y, const float *x); /* y += x */

    /* Polynomials, for the tests to measure: exp on [-87, 88], log of normal positive numbers. */
    void (*exp)(size_t n, const float *x, float *y);
    void (*log)(size_t n, const float *x, float *y);

    /* Operations, as struct mf_kernel has them, but that gradients of operands add. */
    void (*norm)(const struct mf_call *c, int n);
    void (*norm_back)(const struct mf_call *c, int n, float *lane);
    void (*modulate)(const struct mf_call *c, int n);
    void (*modulate_back)(const struct mf_call *c, int n, float *lane);
    void (*gate)(const struct mf_call *c, int n);
    void (*gate_back)(const struct mf_call *c, int n, float *lane);
    void (*attention)(const struct mf_call *c, int n);
    void (*attention_back)(const struct mf_call *c, int n, float *lane);
    size_t (*attention_work)(const struct mf_call *c, int n, bool back);
};

extern const struct mf_kern mf_kern_avx2, mf_kern_base;
const struct mf_kern *mf_kern(void); /* the best that this processor runs */

/* Columns lie in wide panels and, for what is left of them, up to two narrow ones at the end. */
static inline int mf_wide(int n)
{
    int eights = (n + 7) / 8;
    return eights / 3 - (eights % 3 == 1 && eights > 1);
}

static inline int mf_panels(int n)
{
    int wide = mf_wide(n);
    return wide + (n - wide * MF_WIDE + MF_NARROW - 1) / MF_NARROW;
}

/* The first column of panel j, or of what would follow the last. */
static inline int mf_column(int n, int j)
{
    int wide = mf_wide(n);
    return j <= wide ? j * MF_WIDE : wide * MF_WIDE + (j - wide) * MF_NARROW;
}

static inline size_t mf_kern_work(int M, int O, int I)
{
    return (size_t)M * (size_t)(mf_column(I, mf_panels(I)) + O);
}

#endif
