/* gemm_own.c - the route over our own kernels. */
#include "dev/kern.h"

static size_t bytes(int K, int N)
{
    return sizeof(float) * (size_t)mf_column(N, mf_panels(N)) * (size_t)K;
}

static int init(struct mf_pack *p, int K, int N, float *room, struct mf_err *err)
{
    (void)err;
    *p = (struct mf_pack){.K = K, .N = N, .data = room};
    return 0;
}

static void release(struct mf_pack *p)
{
    *p = (struct mf_pack){0};
}

static void pack(struct mf_pack *p, const float *W, int ldw, bool turned)
{
    mf_kern()->pack(p, W, ldw, turned);
}

static void times(const struct mf_pack *p, int M, const float *x, float *y, const struct mf_epilogue *e)
{
    mf_kern()->times(p, M, x, y, e);
}

const struct mf_gemm mf_gemm_own = {"own", true, 1, init, release, pack, bytes, times, NULL};
