/* fast_concat.c - operands side by side: a few columns, as those of a picture's channels, are copied without a call. */
#include <string.h>

#include "cpu/fast.h"

/* Rows of `cols` floats, a constant where this is inlined. */
static inline __attribute__((always_inline)) void rows(float *to, int stride, const float *from, int cols, int n)
{
    for (int i = 0; i < n; i++, to += stride, from += cols)
        for (int j = 0; j < cols; j++)
            to[j] = from[j];
}

static void copy(float *to, int stride, const float *from, int cols, int n)
{
    switch (cols) {
    case 1:
        rows(to, stride, from, 1, n);
        return;
    case 3:
        rows(to, stride, from, 3, n);
        return;
    case 4:
        rows(to, stride, from, 4, n);
        return;
    }
    for (int i = 0; i < n; i++, to += stride, from += cols)
        memcpy(to, from, sizeof *to * (size_t)cols);
}

static void forward(const struct mf_cpu_call *k, int n)
{
    const struct mf_call *c = &k->call;
    const int M = mf_tile_rows(&c->y, n), N = c->y.cols;
    float *to = c->y.data;
    for (int j = 0; j < c->n_x; to += c->x[j++].cols) {
        const struct mf_tensor *x = &c->x[j];
        if (mf_same_rows(x, &c->y))
            copy(to, N, x->data, x->cols, M);
        else
            for (int i = 0; i < M; i++)
                memcpy(to + (size_t)i * (size_t)N, x->data + (size_t)mf_row_of(x, &c->y, i) * (size_t)x->cols,
                       sizeof *to * (size_t)x->cols);
    }
}

const struct mf_fast mf_fast_concat = {.name = "concat", .forward = forward};
