/* op_pool.c - the largest, or the mean, of consecutive rows. */
#include "dev/ref.h"
#include "graph/record.h"
#include "op/ops.h"

/* aux: the number of the largest row, as a float. */
static void forward(const struct mf_call *c, int n)
{
    const enum mf_pool *how = c->how;
    int N = c->y.cols, some = c->x[0].rows / c->y.rows;
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++)
        for (int j = 0; j < N; j++) {
            const float *x = c->x[0].data + (size_t)i * (size_t)(some * N) + (size_t)j;
            float y = x[0], which = 0.0f;
            for (int r = 1; r < some; r++) {
                if (*how == MF_POOL_MEAN)
                    y += x[r * N];
                else if (x[r * N] > y || x[r * N] != x[r * N])
                    y = x[r * N], which = (float)r;
            }
            c->y.data[i * N + j] = *how == MF_POOL_MEAN ? y / (float)some : y;
            if (c->aux)
                c->aux[i * N + j] = which;
        }
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    const enum mf_pool *how = c->how;
    int N = c->y.cols, some = c->x[0].rows / c->y.rows;
    (void)lane;
    mf_ref_zero(c, n);
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++)
        for (int j = 0; j < N; j++) {
            float *dx = c->x[0].grad + (size_t)i * (size_t)(some * N) + (size_t)j, g = c->y.grad[i * N + j];
            if (*how == MF_POOL_MAX)
                dx[(int)c->aux[i * N + j] * N] += g;
            for (int r = 0; *how == MF_POOL_MEAN && r < some; r++)
                dx[r * N] += g / (float)some;
        }
}

static const struct mf_op op = {
    .name = "pool",
    .attributes = sizeof(enum mf_pool),
    .flows = 1,
    .frees_inputs = true,
    .forward = forward,
    .backward = backward,
};

struct mf_val mf_pool(struct mf_graph *g, struct mf_val x, int n, enum mf_pool how)
{
    int rows = mf_rows(g, x), cols = mf_cols(g, x);
    mf_record_want(g, n > 0 && rows % n == 0, &op, 1, &x);
    if (n == rows)
        return x;
    struct mf_val y = mf_record(g, &op, &how, 1, &x, n, cols);
    mf_record_of(g, y)->aux_floats = how == MF_POOL_MAX ? (size_t)n * (size_t)cols : 0;
    return y;
}
