/* op_flow_noise.c - the noise of a denoising step, for sampling. */
#include "flow/loops.h"
#include "flow/ops.h"
#include "graph/record.h"

static void forward(const struct mf_call *c, int n)
{
    const struct mf_flow_noise_how *how = c->how;
    int D = c->y.cols;
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++) {
        const float *mean = mf_ref_row(c, 0, i), *eps = mf_ref_row(c, 1, i), *coef = mf_ref_row(c, 2, i),
                    *std = c->n_x > 3 ? mf_ref_row(c, 3, i) : NULL;
        for (int d = 0; d < D; d++)
            c->y.data[i * D + d] = mf_flow_noise_at(how, mean[d], mf_flow_std_at(coef, std, d), eps[d]);
    }
}

static const struct mf_op op = {
    .name = "flow_noise",
    .attributes = sizeof(struct mf_flow_noise_how),
    .forward = forward,
};

struct mf_val mf_flow_noise(struct mf_graph *g, struct mf_val mean, struct mf_val std, struct mf_val coef,
                            struct mf_val eps, float clip, float limit)
{
    struct mf_val all[] = {mean, eps, coef, std};
    int rows = mf_rows(g, mean), cols = mf_cols(g, mean);
    bool fits = mf_has_shape(g, eps, rows, cols) && mf_spreads(g, coef, rows, 3);
    mf_record_want(g, fits && (!std.id || mf_spreads(g, std, rows, cols)), &op, 4, all);
    return mf_record(g, &op, &(struct mf_flow_noise_how){clip, limit}, 4, all, rows, cols);
}
