/* op_latent_draw.c - the latent actor's draw, by reparametrisation. */
#include "flow/loops.h"
#include "flow/ops.h"
#include "graph/record.h"

static void forward(const struct mf_call *c, int n)
{
    const float *magnitude = c->how, *mean = c->x[0].data, *std = c->x[1].data, *eps = c->n_x > 2 ? c->x[2].data : NULL;
    const int size = mf_tile_rows(&c->y, n) * c->y.cols;
    for (int i = 0; i < size; i++)
        c->y.data[i] = mf_latent_draw_at(*magnitude, mean[i], std[i], eps ? eps[i] : 0.0f);
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    const float *magnitude = c->how, *mean = c->x[0].data, *std = c->x[1].data, *eps = c->n_x > 2 ? c->x[2].data : NULL;
    const int size = mf_tile_rows(&c->y, n) * c->y.cols;
    (void)lane;
    mf_ref_zero(c, n);
    for (int i = 0; i < size; i++) {
        if (c->y.grad[i] == 0.0f)
            continue;
        const float e = eps ? eps[i] : 0.0f, d = mf_latent_draw_by_mean(c->y.grad[i], *magnitude, mean[i], std[i], e);
        if (c->x[0].grad)
            c->x[0].grad[i] += d;
        if (c->x[1].grad)
            c->x[1].grad[i] += d * e;
    }
}

static const struct mf_op op = {
    .name = "latent_draw",
    .attributes = sizeof(float),
    .flows = 1 | 2,
    .forward = forward,
    .backward = backward,
};

struct mf_val mf_latent_draw(struct mf_graph *g, struct mf_val mean, struct mf_val std, struct mf_val eps,
                             float magnitude)
{
    struct mf_val all[] = {mean, std, eps};
    const int rows = mf_rows(g, mean), cols = mf_cols(g, mean);
    mf_record_want(g, mf_has_shape(g, std, rows, cols) && (!eps.id || mf_has_shape(g, eps, rows, cols)), &op, 3, all);
    return mf_record(g, &op, &magnitude, 3, all, rows, cols);
}
