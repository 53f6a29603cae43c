/* gemm.h - matrix products. Every element is one sum over k from 0 upwards, in steps that no size of the product
 * changes: a row has the same bits among 1 or 200,000 others.
 */
#ifndef MF_CUDA_GEMM_H
#define MF_CUDA_GEMM_H

#include "cuda/kernel.h"

/* What becomes of C where it is the gradient of a result whose operation takes numbers one by one: C times the
 * derivative of its activation. */
enum { MF_ONWARD = 3 };
struct mf_onward {
    int n; /* 0: C is stored as it is, else in these alone */
    enum mf_act act;
    const float *kept; /* what the derivative is computed from (M, N) */
    struct {
        float *grad; /* (M, N) */
        bool add;
    } to[MF_ONWARD]; /* in this order, of which two may be the same */
    bool kept_bf16;  /* as mf_product.C_bf16 stores it */
};

/* C (M, N) = or += A B, for each of `batch` products. */
struct mf_product {
    int M, N, K;
    const float *A;
    int lda;
    bool A_transposed; /* A is stored (K, M), else (M, K); rows are lda numbers apart */
    const float *B;
    int ldb;
    bool B_transposed; /* B is stored (N, K), else (K, N); and A is not transposed */
    float *C;
    int ldc;
    bool add;
    int batch;
    size_t next_A, next_B, next_C; /* numbers from one product to the next */
    /* Stored as bf16: A where neither is transposed but B, B where A alone is transposed, C of a forward product. Rows
     * and `next` are then multiples of 8 numbers, aligned to 16 bytes; with precision bf16 alone. */
    bool A_bf16, B_bf16, C_bf16;
    /* (batch, K) bytes: 0 leaves index k out, whose column of A and row of B may hold NaN; NULL: none is left out. */
    const unsigned char *live;
    /* The epilogue, of forward products: C = act(A B + b + r1 + r2), and the derivative to slope where it is wanted. */
    const float *b;            /* (N), or NULL */
    const struct mf_call *sum; /* its operands 1.. are residuals, spread over its y, whose rows are the M; or NULL */
    enum mf_act act;
    float *slope;  /* (M, N), or NULL */
    float *before; /* (M, N), C before the activation; or NULL */
    /* The epilogue of a product of backward whose A is not transposed. */
    struct mf_onward on;
    unsigned char *found; /* (M): 1 where the row of A has a number that is not 0, else 0; or NULL */
    /* Where A is transposed: the sum of its columns over k, from 0 upwards, is added to (M) numbers; or NULL. */
    float *sums;
    size_t next_sums;
};

cudaError_t mf_product(const struct mf_product *p, enum mf_precision precision, cudaStream_t stream);

/* The same by one of the sizes of tiles, from the smallest, or by the largest below it that the GPU has room for:
 * mf_product takes the one that it estimates to be the fastest. No bit depends on it. */
enum { MF_TILES = 4 };
cudaError_t mf_product_by(const struct mf_product *p, enum mf_precision precision, int tile, cudaStream_t stream);

#endif
