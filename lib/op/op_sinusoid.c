/* op_sinusoid.c - embeddings of a time. */
#include "dev/ref.h"
#include "graph/record.h"
#include "op/loops.h"
#include "op/ops.h"

static void forward(const struct mf_call *c, int n)
{
    const float *scale = c->how;
    int M = mf_tile_rows(&c->y, n), half = c->y.cols / 2;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < half; j++) {
            float angle = mf_sinusoid_angle(*scale, c->x[0].data[i], j, half),
                  *y = c->y.data + (size_t)i * (size_t)c->y.cols + (size_t)j;
            y[0] = sinf(angle);
            y[half] = cosf(angle);
        }
}

static const struct mf_op op = {
    .name = "sinusoid",
    .attributes = sizeof(float),
    .forward = forward,
};

struct mf_val mf_sinusoid(struct mf_graph *g, struct mf_val t, float scale, int dim)
{
    mf_record_want(g, mf_cols(g, t) == 1 && dim % 2 == 0, &op, 1, &t);
    return mf_record(g, &op, &scale, 1, &t, mf_rows(g, t), dim);
}
