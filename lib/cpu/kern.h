/* kern.h - the inner loops of the cpu device, compiled once per instruction set.
 *
 * kern_base.c, kern_avx2.c and kern_avx512.c include the same loops over
 * vectors of 8, 8 and 16 floats; AVX2 and AVX-512 have four rows of a product
 * in assembly, one text for both. The bits are the same on all of them, and a
 * row's are the same in every block, tail and position. kern_avx512_bf16.c
 * multiplies pairs of bf16, with bits of its own.
 */
#ifndef MF_CPU_KERN_H
#define MF_CPU_KERN_H

#include "cpu/fast.h"

enum { MF_ROWS = 4 }; /* of a block */

struct mf_kern {
    const char *name;

    const struct mf_products *fp32, *bf16;

    void (*act)(enum mf_act act, size_t n, const float *x, float *y, float *slope);
    /* g *= act'; true when any of g is not zero */
    bool (*act_back)(enum mf_act act, size_t n, float *g, const float *y, const float *slope);
    void (*add)(size_t n, float *y, const float *x); /* y += x */

    /* Polynomials, for the tests to measure: exp on [-87, 88], log of normal positive numbers. */
    void (*exp)(size_t n, const float *x, float *y);
    void (*log)(size_t n, const float *x, float *y);

    /* Operations, as struct mf_fast has them, but that gradients of operands add. */
    void (*norm)(const struct mf_cpu_call *c, int n);
    void (*norm_back)(const struct mf_call *c, int n, float *lane);
    void (*modulate)(const struct mf_call *c, int n);
    void (*modulate_back)(const struct mf_call *c, int n, float *lane);
    void (*gate)(const struct mf_call *c, int n);
    void (*gate_back)(const struct mf_call *c, int n, float *lane);
    void (*attention)(const struct mf_cpu_call *c, int n);
    void (*attention_back)(const struct mf_call *c, int n, float *lane);
    size_t (*attention_work)(const struct mf_call *c, int n, bool back);

    /* These set or add, as the call says. Scratch of im2col_back and max_pool2d_back: 3 floats for each pixel of a
     * map's line; of picture: 2 for each number of a line. */
    void (*im2col)(const struct mf_cpu_call *c, int n);
    void (*im2col_back)(const struct mf_call *c, int n);
    void (*max_pool2d)(const struct mf_cpu_call *c, int n);
    void (*max_pool2d_back)(const struct mf_call *c, int n);
    void (*picture)(const struct mf_cpu_call *c, int n);
    void (*transpose)(int blocks, int R, int C, const float *x, float *y, bool add); /* (R, C) to (C, R), or added */
    void (*blend)(const struct mf_call *c, int n);
    void (*blend_back)(const struct mf_call *c, int n, float *lane);
};

extern const struct mf_kern mf_kern_avx512, mf_kern_avx2, mf_kern_base;
extern const struct mf_products mf_products_avx512_bf16;
/* The widest that this processor runs, or as wide as MF_CPU=base|avx2|avx512|avx512_bf16 allows. */
const struct mf_kern *mf_kern(void);
bool mf_kern_is_known(void);                      /* MF_CPU is one of these words, or unset */
const struct mf_products *mf_products(bool bf16); /* of mf_kern, or in pairs where those are faster */

/* Columns of a panel are three vectors of `lanes` floats, or two, for what is left of them: up to two narrow panels at
 * the end. */
static inline int mf_wide(int lanes, int n)
{
    int vectors = (n + lanes - 1) / lanes;
    return vectors / 3 - (vectors % 3 == 1 && vectors > 1);
}

static inline int mf_panels(int lanes, int n)
{
    int wide = mf_wide(lanes, n);
    return wide + (n - wide * 3 * lanes + 2 * lanes - 1) / (2 * lanes);
}

/* The first column of panel j, or of what would follow the last. */
static inline int mf_column(int lanes, int n, int j)
{
    int wide = mf_wide(lanes, n);
    return (j <= wide ? 3 * j : 3 * wide + 2 * (j - wide)) * lanes;
}

#endif
