/* gemm.h - matrix products with weights that were packed beforehand.
 *
 * Every element of y is one chain of fused multiply-adds over k from 0, then
 * the epilogue: its bits depend on its own row of x alone.
 */
#ifndef MF_DEV_GEMM_H
#define MF_DEV_GEMM_H

#include "base/err.h"
#include "dev/op.h"

struct mf_pack {
    int K, N;
    float *data; /* the route's own layout, in the caller's room */
    void *impl;  /* the route's own, or NULL */
};

/* What is added to x w, and where the result goes. */
struct mf_epilogue {
    const float *b;               /* (N), or NULL */
    const struct mf_tensor *y;    /* for the rows of the residuals */
    const struct mf_tensor *r[2]; /* or NULL */
    enum mf_act act;
    float *slope;    /* (M, N) act'(..), where an activation keeps it: else NULL */
    bool add;        /* y += */
    int part, parts; /* the share of y that is wanted: rows where they are many, else columns; parts 0: all */
};

struct mf_gemm {
    const char *name;
    bool divides; /* times looks at part */
    int step;     /* every multiple of so many rows costs it a primitive: who may choose rows pads to it */
    /* room: pack_bytes at a multiple of 64, which stay the caller's and outlive the pack */
    int (*pack_init)(struct mf_pack *p, int K, int N, float *room, struct mf_err *err);
    void (*pack_release)(struct mf_pack *p);
    /* w(k, n) = W[n*ldw + k], or W[k*ldw + n] when turned. */
    void (*pack)(struct mf_pack *p, const float *W, int ldw, bool turned);
    size_t (*pack_bytes)(int K, int N);
    /* y(M, N) = act(x(M, K) w + b + r0 + r1) */
    void (*times)(const struct mf_pack *p, int M, const float *x, float *y, const struct mf_epilogue *e);
    /* dw(n, k) += sum over the M rows named in live of dy(row, n) x(row, k); NULL: as mf_kern does it */
    void (*outer)(const struct mf_pack *p, int M, const int *live, const float *dy, const float *x, float *dw,
                  int lddw);
};

extern const struct mf_gemm mf_gemm_own, mf_gemm_dnn, mf_gemm_dnn_bf16;

/* The route for this processor; NULL: it has no such precision. MF_CPU_GEMM=own|dnn overrides, for tests. */
const struct mf_gemm *mf_gemm_choose(bool bf16);

#endif
