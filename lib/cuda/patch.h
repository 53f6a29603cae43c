/* patch.h - windows of maps: what kernels compute of them. */
#ifndef MF_CUDA_PATCH_H
#define MF_CUDA_PATCH_H

#include "cuda/launch.h"

extern "C" {
#include "op/how.h"
}

struct mf_windows {
    struct mf_patch how;
    struct mf_div W, map, across, of_map, stride; /* map: pixels; of_map: windows */
    int C;
};

static inline struct mf_windows mf_windows_of(const struct mf_kernel_call *k)
{
    const struct mf_patch *how = (const struct mf_patch *)k->call.how;
    int across = mf_patch_across(how);
    return {*how,
            mf_div_by(how->W),
            mf_div_by(how->H * how->W),
            mf_div_by(across),
            mf_div_by(mf_patch_down(how) * across),
            mf_div_by(how->stride),
            k->call.x[0].cols};
}

/* Where window i is: its map, and its first pixel, which may be beyond. */
struct mf_window {
    int map, top, left;
};

__device__ __forceinline__ struct mf_window mf_window_of(const struct mf_windows &s, int i)
{
    int map = mf_quotient(s.of_map, i), at = i - map * (int)s.of_map.by, down = mf_quotient(s.across, at);
    return {map, down * s.how.stride - s.how.pad, (at - down * (int)s.across.by) * s.how.stride - s.how.pad};
}

/* f(i, tap) for the windows that pixel `row` of all maps is in, in order: it is their pixel number `tap`. */
template <class F> __device__ __forceinline__ void mf_windows_with(const struct mf_windows &s, int row, F f)
{
    int map = mf_quotient(s.map, row), at = row - map * (int)s.map.by, y = mf_quotient(s.W, at);
    int x = at - y * s.how.W + s.how.pad, across = (int)s.across.by, down = (int)s.of_map.by / across;
    y += s.how.pad;
    int first_y = y < s.how.kh ? 0 : mf_quotient(s.stride, y - s.how.kh) + 1, last_y = mf_quotient(s.stride, y);
    int first_x = x < s.how.kw ? 0 : mf_quotient(s.stride, x - s.how.kw) + 1, last_x = mf_quotient(s.stride, x);
    last_y = last_y < down ? last_y : down - 1;
    last_x = last_x < across ? last_x : across - 1;
    for (int v = first_y; v <= last_y; v++) {
        int i = (map * down + v) * across + first_x, end = i + last_x - first_x;
        int tap = (y - v * s.how.stride) * s.how.kw + x - first_x * s.how.stride;
        for (; i <= end; i++, tap -= s.how.stride)
            f(i, tap);
    }
}

/* A call whose numbers move in packs of 4. */
static inline bool mf_windows_by_fours(const struct mf_kernel_call *k, bool back)
{
    const struct mf_tensor *x = &k->call.x[0], *y = &k->call.y;
    return mf_by_fours(back ? x->grad : x->data, x->cols) && mf_by_fours(back ? y->grad : y->data, x->cols) &&
           mf_by_fours(k->call.aux, x->cols);
}

#endif
