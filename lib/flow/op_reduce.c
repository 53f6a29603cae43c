/* op_reduce.c - sums the elements of a chain to the granularity of the ratio. */
#include "flow/loops.h"
#include "flow/ops.h"
#include "graph/record.h"

static void forward(const struct mf_call *c, int n)
{
    const struct mf_reduce_how *how = c->how;
    int K = c->x[0].rows, D = c->x[0].cols, E = c->y.cols;
    for (int s = 0; s < n; s++) {
        const float *el = c->x[0].data + (size_t)s * (size_t)(K * D);
        const float *first = c->n_x > 1 ? c->x[1].data + (size_t)s * (size_t)D : NULL;
        for (int e = 0; e < E; e++) {
            double sum = 0.0;
            int from, to;
            mf_reduce_columns(how, D, e, &from, &to);
            for (int d = from; d < to; d++) {
                if (first)
                    sum -= mf_reduce_first_at(first[d]);
                for (int k = 0; k < K; k++)
                    sum += (double)el[k * D + d];
            }
            c->y.data[s * E + e] = (float)(sum * (double)how->scale);
        }
    }
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    const struct mf_reduce_how *how = c->how;
    int K = c->x[0].rows, D = c->x[0].cols, E = c->y.cols;
    (void)lane;
    mf_ref_zero(c, n);
    for (int s = 0; s < n; s++)
        for (int d = 0; d < D; d++)
            for (int k = 0; mf_reduce_column(how, d) >= 0 && k < K; k++)
                c->x[0].grad[(s * K + k) * D + d] += how->scale * c->y.grad[s * E + mf_reduce_column(how, d)];
}

static const struct mf_op op = {
    .name = "reduce",
    .attributes = sizeof(struct mf_reduce_how),
    .flows = 1,
    .forward = forward,
    .backward = backward,
};

struct mf_val mf_reduce(struct mf_graph *g, struct mf_val elements, struct mf_val first, enum mf_reduce to, int A,
                        int C, int offset, float scale)
{
    struct mf_val all[] = {elements, first};
    int D = mf_cols(g, elements), cols = to == MF_REDUCE_TOKEN ? C * A : to == MF_REDUCE_ACTION ? C : 1;
    bool executed = to == MF_REDUCE_ALL || (offset >= 0 && A > 0 && (offset + C) * A <= D);
    bool drawn = !first.id || (mf_has_shape(g, first, 1, D) && !mf_is_shared(g, first));
    mf_record_want(g, executed && drawn && !mf_is_shared(g, elements), &op, 2, all);
    return mf_record(g, &op, &(struct mf_reduce_how){to, A, C, offset, scale}, 2, all, 1, cols);
}
