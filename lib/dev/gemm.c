#include "dev/gemm.h"

#include <stdlib.h>
#include <string.h>

const struct mf_gemm *mf_gemm_choose(bool bf16)
{
    const char *asked = getenv("MF_CPU_GEMM");
    if (bf16)
        return __builtin_cpu_supports("avx512bf16") ? &mf_gemm_dnn_bf16 : NULL;
    /* With AVX2 alone oneDNN 2.6 reaches half the peak and a row's bits depend on where it stands. Where it may be
     * faster, with AVX-512, it is there for the asking: the promise of a row's bits holds for ours by construction. */
    return asked && !strcmp(asked, "dnn") ? &mf_gemm_dnn : &mf_gemm_own;
}
