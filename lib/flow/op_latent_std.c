/* op_latent_std.c - the standard deviation of the latent actor. */
#include "flow/loops.h"
#include "flow/ops.h"
#include "graph/record.h"

static void forward(const struct mf_call *c, int n)
{
    const int size = mf_tile_rows(&c->y, n) * c->y.cols;
    for (int i = 0; i < size; i++)
        c->y.data[i] = mf_latent_std_at(c->how, c->x[0].data[i]);
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    const int size = mf_tile_rows(&c->y, n) * c->y.cols;
    (void)lane;
    mf_ref_zero(c, n);
    for (int i = 0; i < size; i++)
        if (c->y.grad[i] != 0.0f)
            c->x[0].grad[i] += mf_latent_std_by(c->how, c->y.grad[i], c->x[0].data[i], c->y.data[i]);
}

static const struct mf_op op = {
    .name = "latent_std",
    .attributes = sizeof(struct mf_latent_std_how),
    .flows = 1,
    .forward = forward,
    .backward = backward,
};

struct mf_val mf_latent_std(struct mf_graph *g, struct mf_val logstd, float low, float high)
{
    return mf_record(g, &op, &(struct mf_latent_std_how){low, high}, 1, &logstd, mf_rows(g, logstd),
                     mf_cols(g, logstd));
}
