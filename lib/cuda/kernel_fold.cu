/* kernel_fold.cu - every row becomes a window of rows, which add up. */
#include "cuda/slide.h"

static cudaError_t forward(const struct mf_kernel_call *k)
{
    const struct mf_tensor *y = &k->call.y, *x = &k->call.x[0];
    return mf_slide_together(k, x, y, x->data, y->data, false);
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    const struct mf_tensor *y = &k->call.y, *x = &k->call.x[0];
    return mf_slide_apart(k, x, y, y->grad, x->grad, x->add);
}

extern const struct mf_kernel mf_kernel_fold = {"fold", forward, backward, NULL};
