/* op_product.c - an elementwise product. */
#include "dev/ref.h"
#include "graph/record.h"
#include "op/ops.h"

static void forward(const struct mf_call *c, int n)
{
    const float *x = c->x[0].data, *z = c->x[1].data;
    float *y = c->y.data;
    size_t count = (size_t)mf_tile_rows(&c->y, n) * (size_t)c->y.cols;
    for (size_t i = 0; i < count; i++)
        y[i] = x[i] * z[i];
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    size_t count = (size_t)mf_tile_rows(&c->y, n) * (size_t)c->y.cols;
    const float *g = c->y.grad;
    (void)lane;
    mf_ref_zero(c, n);
    for (int k = 0; k < 2; k++) {
        const float *other = c->x[1 - k].data;
        float *d = c->x[k].grad;
        for (size_t i = 0; d && i < count; i++)
            d[i] += g[i] == 0.0f ? 0.0f : g[i] * other[i];
    }
}

static const struct mf_op op = {
    .name = "product",
    .flows = 1 | 2,
    .forward = forward,
    .backward = backward,
    .by_rows = mf_ref_by_rows,
};

struct mf_val mf_product(struct mf_graph *g, struct mf_val x, struct mf_val y)
{
    struct mf_val all[] = {x, y};
    bool fits = mf_has_shape(g, y, mf_rows(g, x), mf_cols(g, x)) && mf_is_shared(g, x) == mf_is_shared(g, y);
    mf_record_want(g, fits, &op, 2, all);
    return mf_record(g, &op, NULL, 2, all, mf_rows(g, x), mf_cols(g, x));
}
