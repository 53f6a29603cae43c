/* op_noise_std.c - the standard deviation that a noise network predicts, within its bounds. */
#include <math.h>

#include "flow/loops.h"
#include "flow/ops.h"
#include "graph/record.h"

static void forward(const struct mf_call *c, int n)
{
    int D = c->y.cols;
    float low = c->x[1].data[0], high = c->x[1].data[1];
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++)
        for (int d = 0; d < D; d++) {
            float t = tanhf(c->x[0].data[i * D + d]);
            c->y.data[i * D + d] = expf(0.5f * (low + (high - low) * 0.5f * (t + 1.0f)));
        }
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    int D = c->y.cols;
    float low = c->x[1].data[0], high = c->x[1].data[1];
    (void)lane;
    mf_ref_zero(c, n);
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++)
        for (int d = 0; d < D; d++) {
            float g = c->y.grad[i * D + d];
            if (g == 0.0f)
                continue;
            float t = tanhf(c->x[0].data[i * D + d]);
            c->x[0].grad[i * D + d] += g * c->y.data[i * D + d] * 0.25f * (high - low) * (1.0f - t * t);
        }
}

static const struct mf_op op = {
    .name = "noise_std",
    .flows = 1,
    .forward = forward,
    .backward = backward,
};

struct mf_val mf_noise_std(struct mf_graph *g, struct mf_val u, struct mf_val bounds)
{
    struct mf_val all[] = {u, bounds};
    mf_record_want(g, mf_has_shape(g, bounds, 1, 2) && mf_is_shared(g, bounds), &op, 2, all);
    return mf_record(g, &op, NULL, 2, all, mf_rows(g, u), mf_cols(g, u));
}
