/* kernel_unfold.cu - every window of rows becomes one row. */
#include "cuda/slide.h"

static cudaError_t forward(const struct mf_kernel_call *k)
{
    const struct mf_tensor *y = &k->call.y, *x = &k->call.x[0];
    return mf_slide_apart(k, y, x, x->data, y->data, false);
}

static cudaError_t backward(const struct mf_kernel_call *k)
{
    const struct mf_tensor *y = &k->call.y, *x = &k->call.x[0];
    return mf_slide_together(k, y, x, y->grad, x->grad, x->add);
}

extern const struct mf_kernel mf_kernel_unfold = {"unfold", forward, backward, NULL};
