/* op_mse.c - the mean squared error. Weight 0 is a masked sample: nothing of it is read, its gradient is 0. */
#include "dev/ref.h"
#include "graph/record.h"
#include "op/loops.h"
#include "op/ops.h"

static void forward(const struct mf_call *c, int n)
{
    int size = c->x[0].rows * c->x[0].cols;
    for (int s = 0; s < n; s++) {
        const float *a = c->x[0].data + mf_ref_sample(&c->x[0], s), *b = c->x[1].data + mf_ref_sample(&c->x[1], s);
        double sum = 0.0, w = (double)c->x[2].data[mf_ref_sample(&c->x[2], s)];
        for (int j = 0; w != 0.0 && j < size; j++)
            sum += mf_squared_error(a[j], b[j]);
        c->y.data[s] = (float)(w * sum / size);
    }
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    int size = c->x[0].rows * c->x[0].cols;
    (void)lane;
    mf_ref_zero(c, n);
    for (int s = 0; s < n; s++) {
        const float *a = c->x[0].data + mf_ref_sample(&c->x[0], s), *b = c->x[1].data + mf_ref_sample(&c->x[1], s);
        double w = 2.0 * mf_ref_weigh(c->x[2].data[mf_ref_sample(&c->x[2], s)], c->y.grad[s]) / size;
        for (int j = 0; w != 0.0 && j < size; j++)
            c->x[0].grad[(size_t)s * (size_t)size + (size_t)j] += (float)(w * ((double)a[j] - (double)b[j]));
    }
}

static const struct mf_op op = {
    .name = "mse",
    .flows = 1,
    .forward = forward,
    .backward = backward,
};

struct mf_val mf_mse(struct mf_graph *g, struct mf_val a, struct mf_val b, struct mf_val weight)
{
    struct mf_val all[] = {a, b, weight};
    mf_record_want(
        g, mf_has_shape(g, b, mf_rows(g, a), mf_cols(g, a)) && mf_has_shape(g, weight, 1, 1) && !mf_is_shared(g, a),
        &op, 3, all);
    return mf_record(g, &op, NULL, 3, all, 1, 1);
}
