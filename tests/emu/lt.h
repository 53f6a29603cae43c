/* lt.h - the emulated GPU has no cublasLt. */
#pragma once
#include "cuda/gemm.h"

enum { MF_LT_WORK = 0 };

static inline bool mf_lt_on(void)
{
    return false;
}
static inline bool mf_lt_product(const struct mf_product *, enum mf_precision, float *, cudaStream_t, cudaError_t *)
{
    return false;
}
