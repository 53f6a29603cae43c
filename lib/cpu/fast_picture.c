/* fast_picture.c - pictures: by the kernels. */
#include "cpu/fast.h"
#include "cpu/kern.h"
#include "op/how.h"

static void forward(const struct mf_cpu_call *c, int n)
{
    mf_kern()->picture(c, n);
}

/* Scale and offset of every number of a line. */
static size_t work(const struct mf_cpu_call *c, int n, bool back)
{
    const struct mf_picture_how *how = c->call.how;
    (void)n, (void)back;
    return 2 * (size_t)(how->w * how->C);
}

const struct mf_fast mf_fast_picture = {
    .name = "picture",
    .forward = forward,
    .work = work,
    .divides = true,
};
