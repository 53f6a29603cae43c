/* gemm.h - matrix products. Every element is one sum over k from 0 upwards, in steps that no size of the product
 * changes: a row has the same bits among 1 or 200,000 others.
 */
#ifndef MF_CUDA_GEMM_H
#define MF_CUDA_GEMM_H

#include "cuda/kernel.h"

/* C (M, N) = or += A B, for each of `batch` products. */
struct mf_product {
    int M, N, K;
    const float *A;
    int lda;
    bool A_transposed; /* A is stored (K, M), else (M, K); rows are lda floats apart */
    const float *B;
    int ldb;
    bool B_transposed; /* B is stored (N, K), else (K, N) */
    float *C;
    int ldc;
    bool add;
    int batch;
    size_t next_A, next_B, next_C; /* floats from one product to the next */
    /* (batch, K) bytes: 0 leaves index k out, whose column of A and row of B may hold NaN; NULL: none is left out. */
    const unsigned char *live;
    /* The epilogue, of forward products: C = act(A B + b + r1 + r2), and the derivative to slope where it is wanted. */
    const float *b;            /* (N), or NULL */
    const struct mf_call *sum; /* its operands 1.. are residuals, spread over its y, whose rows are the M; or NULL */
    enum mf_act act;
    float *slope; /* (M, N), or NULL */
};

cudaError_t mf_product(const struct mf_product *p, enum mf_precision precision, cudaStream_t stream);

/* The same by one of the sizes of tiles, from the smallest, or by the largest below it that the GPU has room for:
 * mf_product takes the one that it estimates to be the fastest. No bit depends on it. */
enum { MF_TILES = 4 };
cudaError_t mf_product_by(const struct mf_product *p, enum mf_precision precision, int tile, cudaStream_t stream);

#endif
