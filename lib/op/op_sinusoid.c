/* op_sinusoid.c - embeddings of a time. */
#include "dev/ref.h"
#include "graph/record.h"
#include "op/loops.h"
#include "op/ops.h"

static void forward(const struct mf_call *c, int n)
{
    const struct mf_sinusoid_how *how = c->how;
    int M = mf_tile_rows(&c->y, n), half = c->y.cols / 2;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < half; j++) {
            float *y = c->y.data + (size_t)i * (size_t)c->y.cols + (size_t)j;
            mf_sinusoid_wave(how, c->x[0].data[i], j, half, &y[0], &y[half]);
        }
}

static const struct mf_op op = {
    .name = "sinusoid",
    .attributes = sizeof(struct mf_sinusoid_how),
    .forward = forward,
};

static struct mf_val record(struct mf_graph *g, struct mf_val t, const struct mf_sinusoid_how *how, int dim)
{
    mf_record_want(g, mf_cols(g, t) == 1 && dim % 2 == 0, &op, 1, &t);
    return mf_record(g, &op, how, 1, &t, mf_rows(g, t), dim);
}

struct mf_val mf_sinusoid(struct mf_graph *g, struct mf_val t, float scale, int dim)
{
    return record(g, t, &(struct mf_sinusoid_how){.wave = MF_WAVE_FALLING, .scale = scale}, dim);
}

struct mf_val mf_waves(struct mf_graph *g, struct mf_val t, double first, double ratio, int dim)
{
    return record(g, t, &(struct mf_sinusoid_how){.wave = MF_WAVE_POWERS, .first = first, .ratio = ratio}, dim);
}
