/* gemm.h - matrix products with weights that were packed beforehand, in one precision.
 *
 * Every element of y is one chain of fused multiply-adds over k from 0, then
 * the epilogue: its bits depend on its own row of x alone. In fp32 they are
 * the same on every processor. In bf16 both factors are rounded to bf16 and
 * sums are fp32; processors that add two products at a time round their sums
 * otherwise.
 */
#ifndef MF_CPU_GEMM_H
#define MF_CPU_GEMM_H

#include "dev/op.h"

/* The items [*from, *to) of n that belong to a part; parts 0: all. */
static inline void mf_part_of(int part, int parts, int n, int *from, int *to)
{
    *from = parts ? (int)((long)n * part / parts) : 0;
    *to = parts ? (int)((long)n * (part + 1) / parts) : n;
}

struct mf_pack {
    int K, N;
    float *data; /* pack_floats, at a multiple of 64 bytes */
    /* NULL, or the weights are not packed: w(k, n) = bf16[n*ld + k], as a mapped file has them, unaligned. */
    const void *bf16;
    size_t ld;
};

/* The operations on x w before it is stored. */
struct mf_epilogue {
    const float *b;               /* (N), or NULL */
    const struct mf_tensor *y;    /* for the rows of the residuals */
    const struct mf_tensor *r[2]; /* or NULL */
    enum mf_act act;
    float *slope;    /* (M, N) act'(..), where an activation keeps it: else NULL */
    bool add;        /* y += */
    float *work;     /* stored_floats, for weights that are not packed */
    int part, parts; /* of y to compute: rows where there are many, else columns; parts 0: all */
};

/* dw(o, i) += sum_m d(m, o) x(m, i), or = where it sets, over the M rows named in live. */
struct mf_outer {
    int M, O, I;
    const int *live;
    const float *d, *x; /* (.., O), (.., I) */
    bool sets;
    float *dw, *work; /* (O, lddw); outer_floats */
    int lddw;
};

struct mf_products {
    const char *name;
    size_t (*pack_floats)(int K, int N);
    /* w(k, n) = W[n*ldw + k], or W[k*ldw + n] when transposed. */
    void (*pack)(struct mf_pack *p, const float *W, int ldw, bool transposed);
    size_t (*stored_floats)(int M); /* scratch of a product whose weights are not packed; NULL: none */
    /* y(M, N) = act(x(M, K) w + b + r0 + r1) */
    void (*times)(const struct mf_pack *p, int M, const float *x, float *y, const struct mf_epilogue *e);
    size_t (*outer_floats)(int M, int O, int I);
    /* First rows are packed, then multiplied. Either may be done in parts, those of packing all before. */
    void (*pack_rows)(const struct mf_outer *o, int part, int parts);
    void (*outer)(const struct mf_outer *o, int part, int parts);
    int most_inputs; /* the largest K */
};

#endif
