#include "cuda/slide.h"

extern "C" {
#include "op/how.h"
}

struct sliding {
    struct mf_slide how;
    struct mf_div few, many, kernel, stride; /* few: windows of a block; many: rows of a block */
    int C;
};

static sliding sliding_of(const struct mf_kernel_call *k, const struct mf_tensor *wide, const struct mf_tensor *x)
{
    const struct mf_slide *how = (const struct mf_slide *)k->call.how;
    return {*how,
            mf_div_by(wide->rows / how->blocks),
            mf_div_by(x->rows / how->blocks),
            mf_div_by(how->kernel),
            mf_div_by(how->stride),
            x->cols};
}

cudaError_t mf_slide_apart(const struct mf_kernel_call *k, const struct mf_tensor *wide, const struct mf_tensor *x,
                           const float *from, float *to, bool add)
{
    sliding s = sliding_of(k, wide, x);
    int N = wide->cols;
    return mf_cells(k->stream, mf_tile_rows(wide, k->n), N, [=] __device__(int i, int col) {
        int block = mf_quotient(s.few, i), t = i - block * (int)s.few.by, many = (int)s.many.by;
        int c = mf_quotient(s.kernel, col), p = t * s.how.stride + col - c * s.how.kernel - s.how.pad;
        float *at = to + (size_t)i * N + col, x = 0.0f;
        if (p >= 0 && p < many)
            x = from[((size_t)block * many + p) * s.C + c];
        *at = add ? *at + x : x;
    });
}

cudaError_t mf_slide_together(const struct mf_kernel_call *k, const struct mf_tensor *wide, const struct mf_tensor *x,
                              const float *from, float *to, bool add)
{
    sliding s = sliding_of(k, wide, x);
    int N = wide->cols;
    return mf_cells(k->stream, mf_tile_rows(x, k->n), s.C, [=] __device__(int i, int c) {
        int block = mf_quotient(s.many, i), few = (int)s.few.by, p = i - block * (int)s.many.by + s.how.pad;
        int first = p < s.how.kernel ? 0 : mf_quotient(s.stride, p - s.how.kernel) + 1, last = mf_quotient(s.stride, p);
        float *at = to + (size_t)i * s.C + c, sum = add ? *at : 0.0f;
        for (int t = first; t <= last && t < few; t++)
            sum += from[((size_t)block * few + t) * N + c * s.how.kernel + p - t * s.how.stride];
        *at = sum;
    });
}
