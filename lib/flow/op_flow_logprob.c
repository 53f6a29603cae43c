/* op_flow_logprob.c - the log-probability of a denoising step. */
#include "flow/loops.h"
#include "flow/ops.h"
#include "graph/record.h"

static void forward(const struct mf_call *c, int n)
{
    int D = c->y.cols;
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++) {
        const float *next = mf_ref_row(c, 0, i), *mean = mf_ref_row(c, 1, i), *coef = mf_ref_row(c, 2, i),
                    *std = c->n_x > 3 ? mf_ref_row(c, 3, i) : NULL;
        for (int d = 0; d < D; d++)
            c->y.data[i * D + d] = mf_flow_logprob_at(next[d], mean[d], mf_flow_std_at(coef, std, d));
    }
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    int D = c->y.cols;
    (void)lane;
    mf_ref_zero(c, n);
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++) {
        const float *next = mf_ref_row(c, 0, i), *mean = mf_ref_row(c, 1, i), *coef = mf_ref_row(c, 2, i),
                    *std = c->n_x > 3 ? mf_ref_row(c, 3, i) : NULL;
        float *dnext = mf_ref_grad(c, 0, i), *dmean = mf_ref_grad(c, 1, i),
              *dstd = c->n_x > 3 ? mf_ref_grad(c, 3, i) : NULL;
        for (int d = 0; d < D; d++) {
            float g = c->y.grad[i * D + d], s = mf_flow_std_at(coef, std, d);
            if (g == 0.0f || s == 0.0f)
                continue;
            if (dnext)
                dnext[d] -= mf_flow_logprob_by_mean(g, next[d], mean[d], s);
            if (dmean)
                dmean[d] += mf_flow_logprob_by_mean(g, next[d], mean[d], s);
            if (dstd)
                dstd[d] += mf_flow_logprob_by_std(g, coef, next[d], mean[d], s);
        }
    }
}

static const struct mf_op op = {
    .name = "flow_logprob",
    .flows = 1 | 2 | 8,
    .forward = forward,
    .backward = backward,
};

struct mf_val mf_flow_logprob(struct mf_graph *g, struct mf_val next, struct mf_val mean, struct mf_val std,
                              struct mf_val coef)
{
    struct mf_val all[] = {next, mean, coef, std};
    int rows = mf_rows(g, mean), cols = mf_cols(g, mean);
    bool fits = mf_has_shape(g, next, rows, cols) && mf_spreads(g, coef, rows, 3);
    mf_record_want(g, fits && (!std.id || mf_spreads(g, std, rows, cols)), &op, 4, all);
    return mf_record(g, &op, NULL, 4, all, rows, cols);
}
