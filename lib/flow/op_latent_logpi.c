/* op_latent_logpi.c - the log-probability of the latent actor's squashed draw. */
#include "flow/loops.h"
#include "flow/ops.h"
#include "graph/record.h"

static void forward(const struct mf_call *c, int n)
{
    const float *mean = c->x[0].data, *std = c->x[1].data, *eps = c->x[2].data;
    const int size = mf_tile_rows(&c->y, n) * c->y.cols;
    for (int i = 0; i < size; i++)
        c->y.data[i] = mf_latent_logpi_at(mean[i], std[i], eps[i]);
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    const float *mean = c->x[0].data, *std = c->x[1].data, *eps = c->x[2].data;
    const int size = mf_tile_rows(&c->y, n) * c->y.cols;
    (void)lane;
    mf_ref_zero(c, n);
    for (int i = 0; i < size; i++) {
        const float g = c->y.grad[i];
        if (g != 0.0f && c->x[0].grad)
            c->x[0].grad[i] += mf_latent_logpi_by_mean(g, mean[i], std[i], eps[i]);
        if (g != 0.0f && c->x[1].grad)
            c->x[1].grad[i] += mf_latent_logpi_by_std(g, mean[i], std[i], eps[i]);
    }
}

static const struct mf_op op = {
    .name = "latent_logpi",
    .flows = 1 | 2,
    .forward = forward,
    .backward = backward,
};

struct mf_val mf_latent_logpi(struct mf_graph *g, struct mf_val mean, struct mf_val std, struct mf_val eps)
{
    struct mf_val all[] = {mean, std, eps};
    const int rows = mf_rows(g, mean), cols = mf_cols(g, mean);
    mf_record_want(g, mf_has_shape(g, std, rows, cols) && mf_has_shape(g, eps, rows, cols), &op, 3, all);
    return mf_record(g, &op, NULL, 3, all, rows, cols);
}
