/* fast_sum.c - sums, and activations of them. */
#include <string.h>

#include "cpu/fast.h"
#include "cpu/kern.h"
#include "cpu/pass_back.h"

static void forward(const struct mf_cpu_call *call, int n)
{
    const struct mf_call *c = &call->call;
    const enum mf_act act = *(const enum mf_act *)c->how;
    const struct mf_kern *k = mf_kern();
    size_t N = (size_t)c->y.cols;
    int from, to;
    mf_part_of(call->part, call->parts, mf_tile_rows(&c->y, n), &from, &to);
    for (int i = from; i < to; i++) {
        float *y = c->y.data + (size_t)i * N;
        memcpy(y, c->x[0].data + (size_t)mf_row_of(&c->x[0], &c->y, i) * N, sizeof(float) * N);
        for (int r = 1; r < c->n_x; r++)
            k->add(N, y, c->x[r].data + (size_t)mf_row_of(&c->x[r], &c->y, i) * N);
        if (act != MF_ACT_NONE)
            k->act(act, N, y, y, c->aux ? c->aux + (size_t)i * N : NULL);
    }
}

static void backward(const struct mf_cpu_call *c, int n, float *lane)
{
    const enum mf_act *act = c->call.how;
    (void)lane;
    mf_pass_back(&c->call, n, 0, *act, NULL, NULL);
}

const struct mf_fast mf_fast_sum = {
    .name = "sum",
    .forward = forward,
    .backward = backward,
    .divides = true,
};
