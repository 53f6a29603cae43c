/* fast_lookup.c - rows of a parameter that may stay bf16 in a file: those that are looked up become floats. */
#include <stdint.h>

#include "base/bf16.h"
#include "cpu/fast.h"
#include "op/loops.h"

static void forward(const struct mf_cpu_call *call, int n)
{
    const struct mf_call *c = &call->call;
    const struct mf_lookup_how *how = c->how;
    const size_t N = (size_t)c->y.cols;
    if (!call->W_bf16) {
        call->op->forward(c, n);
        return;
    }
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++) {
        const int row = mf_lookup_row(c->x[0].data[i], how->rows);
        const char *from = (const char *)call->W_bf16 + (size_t)(row < 0 ? 0 : row) * N * sizeof(uint16_t);
        float *y = c->y.data + (size_t)i * N;
        mf_floats_of_bf16(N, from, y);
        for (size_t j = 0; j < N; j++)
            y[j] = row < 0 ? 0.0f : how->scale * y[j];
    }
}

static bool keeps(const struct mf_call *c)
{
    (void)c;
    return true;
}

const struct mf_fast mf_fast_lookup = {.name = "lookup", .forward = forward, .keeps = keeps};
