/* lt.h - products by cublasLt, which may be faster than those of gemm.cu, for the products of backward alone: the bits
 * of a row depend on its library. The environment asks for it: MF_CUBLASLT=yes takes the loader's library, MF_CUBLASLT=
 * PATH that one. It is off by default, for it has never run on a GPU.
 *
 * An algorithm is chosen once for a shape, without sums in parts (split-K) and with a fixed workspace, so that a run
 * repeats its bits on one model of GPU with one version of the library. tests/emu/lt.h has none of it.
 */
#pragma once
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <array>
#include <map>
#include <mutex>

#include <cublasLt.h>

#include "cuda/gemm.h"

enum { MF_LT_WORK = 8 << 20 }; /* floats of scratch: what NVIDIA advises for an H100 */

#define MF_LT_FUNCTIONS(F)                                                                                             \
    F(Create)                                                                                                          \
    F(MatmulDescCreate)                                                                                                \
    F(MatmulDescSetAttribute)                                                                                          \
    F(MatrixLayoutCreate)                                                                                              \
    F(MatrixLayoutSetAttribute)                                                                                        \
    F(MatmulPreferenceCreate)                                                                                          \
    F(MatmulPreferenceSetAttribute)                                                                                    \
    F(MatmulPreferenceDestroy)                                                                                         \
    F(MatmulAlgoGetHeuristic)                                                                                          \
    F(Matmul)

struct mf_lt_plan {
    bool found;
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t A, B, C;
    cublasLtMatmulAlgo_t algorithm;
};

struct mf_lt {
#define MF_LT_MEMBER(name) decltype(&cublasLt##name) name;
    MF_LT_FUNCTIONS(MF_LT_MEMBER)
#undef MF_LT_MEMBER
    bool on;
    std::mutex lock;
    std::map<int, cublasLtHandle_t> handle;            /* by device */
    std::map<std::array<size_t, 16>, mf_lt_plan> plan; /* by all that a product is, but for its addresses */

    mf_lt()
    {
        const char *name = getenv("MF_CUBLASLT");
        void *library = NULL;
        if (name && !strcmp(name, "yes") && !(library = dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_LOCAL)))
            library = dlopen("libcublasLt.so.12", RTLD_NOW | RTLD_LOCAL);
        else if (name && *name && strcmp(name, "yes") != 0 && strcmp(name, "no") != 0)
            library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        on = library;
#define MF_LT_FIND(name) on = on && (this->name = (decltype(this->name))dlsym(library, "cublasLt" #name));
        MF_LT_FUNCTIONS(MF_LT_FIND)
#undef MF_LT_FIND
    }

    static mf_lt &get()
    {
        static mf_lt lt;
        return lt;
    }

    template <class T> bool set(cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t a, T x)
    {
        return MatrixLayoutSetAttribute(l, a, &x, sizeof x) == CUBLAS_STATUS_SUCCESS;
    }
    template <class T> bool set(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t a, T x)
    {
        return MatmulDescSetAttribute(d, a, &x, sizeof x) == CUBLAS_STATUS_SUCCESS;
    }
    template <class T> bool set(cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t a, T x)
    {
        return MatmulPreferenceSetAttribute(p, a, &x, sizeof x) == CUBLAS_STATUS_SUCCESS;
    }

    /* Of a matrix stored (rows, cols), which the library, column by column, calls (cols, rows). */
    bool layout(cublasLtMatrixLayout_t *l, int rows, int cols, int ld, int batch, size_t next)
    {
        return MatrixLayoutCreate(l, CUDA_R_32F, cols, rows, ld) == CUBLAS_STATUS_SUCCESS &&
               set(*l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, (int32_t)batch) &&
               set(*l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, (int64_t)next);
    }

    /* C is the transpose of what the library computes: B' A'. */
    bool make(mf_lt_plan *q, cublasLtHandle_t h, const struct mf_product *p, enum mf_precision precision)
    {
        cublasComputeType_t by = precision == MF_FP32   ? CUBLAS_COMPUTE_32F
                                 : precision == MF_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                        : CUBLAS_COMPUTE_32F_FAST_16BF;
        cublasLtMatmulPreference_t wish = NULL;
        cublasLtMatmulHeuristicResult_t result = {};
        int results = 0;
        bool fine =
            MatmulDescCreate(&q->how, by, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS &&
            set(q->how, CUBLASLT_MATMUL_DESC_TRANSA, (int32_t)(p->B_transposed ? CUBLAS_OP_T : CUBLAS_OP_N)) &&
            set(q->how, CUBLASLT_MATMUL_DESC_TRANSB, (int32_t)(p->A_transposed ? CUBLAS_OP_T : CUBLAS_OP_N)) &&
            layout(&q->A, p->A_transposed ? p->K : p->M, p->A_transposed ? p->M : p->K, p->lda, p->batch, p->next_A) &&
            layout(&q->B, p->B_transposed ? p->N : p->K, p->B_transposed ? p->K : p->N, p->ldb, p->batch, p->next_B) &&
            layout(&q->C, p->M, p->N, p->ldc, p->batch, p->next_C) &&
            MatmulPreferenceCreate(&wish) == CUBLAS_STATUS_SUCCESS &&
            set(wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, (uint32_t)CUBLASLT_REDUCTION_SCHEME_NONE) &&
            set(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, (uint64_t)(MF_LT_WORK * sizeof(float))) &&
            set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(p->B)) &&
            set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(p->A)) &&
            set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(p->C)) &&
            set(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(p->C)) &&
            MatmulAlgoGetHeuristic(h, q->how, q->B, q->A, q->C, q->C, wish, 1, &result, &results) ==
                CUBLAS_STATUS_SUCCESS &&
            results == 1 && result.state == CUBLAS_STATUS_SUCCESS;
        q->algorithm = result.algo;
        if (wish)
            MatmulPreferenceDestroy(wish);
        return fine;
    }

    static uint32_t alignment(const float *p)
    {
        uintptr_t at = (uintptr_t)p | 256;
        return (uint32_t)(at & -at);
    }
};

static inline bool mf_lt_on(void)
{
    return mf_lt::get().on;
}

/* Enqueues a product without its `live` and epilogue, and returns true; false: it has no algorithm for it. work:
 * MF_LT_WORK floats of the device, aligned to 256 bytes. */
static inline bool mf_lt_product(const struct mf_product *p, enum mf_precision precision, float *work,
                                 cudaStream_t stream, cudaError_t *rc)
{
    mf_lt &lt = mf_lt::get();
    int device;
    if (!lt.on || cudaGetDevice(&device) != cudaSuccess)
        return false;
    std::lock_guard<std::mutex> held(lt.lock);
    cublasLtHandle_t &handle = lt.handle[device];
    if (!handle && lt.Create(&handle) != CUBLAS_STATUS_SUCCESS)
        return false;
    uint32_t aligned[] = {lt.alignment(p->A), lt.alignment(p->B), lt.alignment(p->C)};
    std::array<size_t, 16> key = {
        (size_t)device,   (size_t)precision, (size_t)p->M,   (size_t)p->N,    (size_t)p->K,
        (size_t)p->lda,   p->A_transposed,   (size_t)p->ldb, p->B_transposed, (size_t)p->ldc,
        (size_t)p->batch, p->next_A,         p->next_B,      p->next_C,       aligned[0] | (size_t)aligned[1] << 32,
        aligned[2]};
    auto made = lt.plan.find(key);
    if (made == lt.plan.end()) {
        mf_lt_plan q = {};
        q.found = lt.make(&q, handle, p, precision);
        made = lt.plan.emplace(key, q).first;
    }
    const mf_lt_plan &q = made->second;
    const float one = 1.0f, beta = p->add ? 1.0f : 0.0f;
    if (!q.found)
        return false;
    bool fine = lt.Matmul(handle, q.how, &one, p->B, q.B, p->A, q.A, &beta, p->C, q.C, p->C, q.C, &q.algorithm, work,
                          MF_LT_WORK * sizeof(float), stream) == CUBLAS_STATUS_SUCCESS;
    *rc = fine ? cudaSuccess : cudaErrorUnknown;
    return true;
}
