/* op_lookup.c - rows of a parameter by their numbers. */
#include "dev/ref.h"
#include "graph/record.h"
#include "op/loops.h"
#include "op/ops.h"

static void forward(const struct mf_call *c, int n)
{
    const struct mf_lookup_how *how = c->how;
    size_t N = (size_t)c->y.cols;
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++) {
        int row = mf_lookup_row(c->x[0].data[i], how->rows);
        float *y = c->y.data + (size_t)i * N;
        for (size_t j = 0; j < N; j++)
            y[j] = row < 0 ? 0.0f : how->scale * c->W[(size_t)row * N + j];
    }
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    const struct mf_lookup_how *how = c->how;
    size_t N = (size_t)c->y.cols;
    for (int i = 0; c->dW >= 0 && i < mf_tile_rows(&c->y, n); i++) {
        int row = mf_lookup_row(c->x[0].data[i], how->rows);
        const float *g = c->y.grad + (size_t)i * N;
        for (size_t j = 0; row >= 0 && j < N; j++)
            if (g[j] != 0.0f)
                lane[(size_t)c->dW + (size_t)row * N + j] += how->scale * g[j];
    }
}

static const struct mf_op op = {
    .name = "lookup",
    .attributes = sizeof(struct mf_lookup_how),
    .forward = forward,
    .backward = backward,
};

struct mf_val mf_lookup(struct mf_graph *g, struct mf_val index, int W, float scale)
{
    const struct mf_param *w = &mf_graph_params(g)->p[W];
    struct mf_lookup_how how = {.scale = scale, .rows = w->rows};
    mf_record_want(g, mf_cols(g, index) == 1, &op, 1, &index);
    struct mf_val y = mf_record(g, &op, &how, 1, &index, mf_rows(g, index), w->cols);
    mf_record_of(g, y)->W = W;
    return y;
}
