/* product.h - a product as kernels take it, and the sizes of its tiles (private to the kernels of products). */
#ifndef MF_CUDA_PRODUCT_H
#define MF_CUDA_PRODUCT_H

#include "cuda/gemm.h"
#include "cuda/launch.h"
#include "dev/act.h"

namespace gemm
{
enum { BK = 32 }; /* one bit of a word for each */

enum stored { FP32, A_BF16, B_BF16 }; /* both operands as fp32, or one of them as bf16 */

struct operand {
    const float *p; /* or bf16 */
    int ld, rows;   /* rows: of A, or columns of B */
    size_t next;
    bool wide; /* 4 numbers can be copied at once */
};

struct residual {
    const float *p;
    struct mf_spreading rows;
    bool same; /* row i serves row i of y */
};

struct job {
    int N, K;
    struct operand A, B;
    float *C;
    size_t next_C;
    int ldc, columns;       /* columns: of tiles */
    bool add, wide, C_bf16; /* wide: 4 numbers of C and of all that the epilogue reads are moved at once */
    const unsigned char *live;
    unsigned char *found;
    const float *b;
    float *slope, *before;
    enum mf_act act;
    int n_r;
    struct residual r[2];
    struct mf_onward on;
    float *sums;
    size_t next_sums;
};

/* Warps in M and N, each of TM x TN products of (16, 8); threads in N for fp32; steps of k in shared memory. */
template <int TILE> struct shape;
template <> struct shape<0> {
    enum { WM = 1, WN = 4, TM = 1, TN = 1, TX = 16, STAGES = 4, BLOCKS = 4 };
};
template <> struct shape<1> {
    enum { WM = 2, WN = 2, TM = 2, TN = 4, TX = 8, STAGES = 3, BLOCKS = 3 };
};
template <> struct shape<2> {
    enum { WM = 2, WN = 4, TM = 4, TN = 4, TX = 16, STAGES = 3, BLOCKS = 2 };
};
template <> struct shape<3> {
    enum { WM = 2, WN = 4, TM = 4, TN = 8, TX = 16, STAGES = 3, BLOCKS = 1 };
};

/* X_K: k runs along rows. Two numbers of bf16 take the room of a float. */
template <enum mf_precision P, bool A_K, bool B_K, int TILE, enum stored AS = FP32> struct plan : shape<TILE> {
    using S = shape<TILE>;
    enum {
        BM = S::WM * S::TM * 16,
        BN = S::WN * S::TN * 8,
        THREADS = S::WM * S::WN * 32,
        TY = THREADS / S::TX,
        R = BM / TY, /* rows and columns of a thread, fp32 */
        C = BN / S::TX,
        LDA = AS == A_BF16 ? (A_K ? BK : BM) / 2 + 4 : (A_K ? BK : BM) + (A_K == (P == MF_BF16) ? 8 : 4),
        LDB = AS == B_BF16 ? (B_K ? BK : BN) / 2 + 4 : (B_K ? BK : BN) + (B_K == (P == MF_BF16) ? 8 : 4),
        A_FLOATS = (A_K ? BM : BK) * LDA,
        STAGE = A_FLOATS + (B_K ? BN : BK) * LDB,
        LDC = BN + 8,
        FLOATS = S::STAGES * STAGE > BM *LDC ? S::STAGES *STAGE : BM *LDC,
    };
};

/* Vectors of 4 floats at p, ld and next apart; or there is no p. */
static inline bool wide(const float *p, int ld, size_t next)
{
    return !p || ((uintptr_t)p % 16 == 0 && ld % 4 == 0 && next % 4 == 0);
}

static inline struct job job_of(const struct mf_product *p)
{
    struct job j = {};
    j.N = p->N, j.K = p->K;
    j.A = {p->A, p->lda, p->M, p->next_A, wide(p->A, p->lda, p->next_A)};
    j.B = {p->B, p->ldb, p->N, p->next_B, wide(p->B, p->ldb, p->next_B)};
    j.C = p->C, j.next_C = p->next_C, j.ldc = p->ldc, j.C_bf16 = p->C_bf16;
    j.add = p->add, j.live = p->live, j.found = p->found, j.b = p->b, j.slope = p->slope, j.before = p->before,
    j.act = p->act;
    j.on = p->on, j.sums = p->sums, j.next_sums = p->next_sums;
    j.wide = p->N % 4 == 0 && wide(p->on.kept, p->N, 0) && wide(p->C, p->ldc, p->next_C) && wide(p->b, 0, 0) &&
             wide(p->slope, p->N, 0) && wide(p->before, p->N, 0);
    for (int i = 1; p->sum && i < p->sum->n_x; i++) {
        const struct mf_tensor *t = &p->sum->x[i], *y = &p->sum->y;
        j.r[j.n_r++] = {t->data, mf_spread_of(t, y), mf_same_rows(t, y)};
        j.wide = j.wide && wide(t->data, p->N, 0);
    }
    for (int i = 0; i < p->on.n; i++)
        j.wide = j.wide && wide(p->on.to[i].grad, p->N, 0);
    return j;
}

} // namespace gemm

#endif
