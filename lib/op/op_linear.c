/* op_linear.c - products with a weight, plus bias and residuals. */
#include <string.h>

#include "dev/ref.h"
#include "graph/record.h"
#include "op/ops.h"

/* Floats into W to the weight from column k of x to column j of y. */
static size_t weight_at(const struct mf_call *c, int j, int k)
{
    const struct mf_linear_how *how = c->how;
    size_t ld = (size_t)c->ldw;
    return how->transposed ? (size_t)k * ld + (size_t)j : (size_t)j * ld + (size_t)(how->from + k);
}

static void forward(const struct mf_call *c, int n)
{
    const struct mf_linear_how *how = c->how;
    int M = mf_tile_rows(&c->y, n), N = c->y.cols, K = c->x[0].cols;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            const float *x = c->x[0].data + (size_t)i * (size_t)K;
            float sum = 0.0f;
            for (int k = 0; k < K; k++)
                sum += x[k] * c->W[weight_at(c, j, k)];
            c->y.data[(size_t)i * (size_t)N + (size_t)j] = sum + (c->b ? c->b[j] : 0.0f);
        }
    mf_ref_add_act(c, n, 1, how->act);
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    const struct mf_linear_how *how = c->how;
    int M = mf_tile_rows(&c->y, n), N = c->y.cols, K = c->x[0].cols;
    mf_ref_zero(c, n);
    mf_ref_add_act_back(c, n, 1, how->act);
    if (c->sets)
        memset(lane + c->dW, 0, sizeof(float) * (size_t)(how->transposed ? K : N) * (size_t)c->ldw);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            const float *x = c->x[0].data + (size_t)i * (size_t)K;
            float d = c->y.grad[(size_t)i * (size_t)N + (size_t)j];
            if (d == 0.0f)
                continue;
            if (c->db >= 0)
                lane[c->db + j] += d;
            for (int k = 0; k < K; k++) {
                if (c->dW >= 0)
                    lane[(size_t)c->dW + weight_at(c, j, k)] += d * x[k];
                if (c->x[0].grad)
                    c->x[0].grad[(size_t)i * (size_t)K + (size_t)k] += d * c->W[weight_at(c, j, k)];
            }
        }
}

/* A call that multiplies by some columns of W has no gradient for the others. */
static bool sets(const struct mf_call *c)
{
    const struct mf_linear_how *how = c->how;
    return (how->transposed ? c->y : c->x[0]).cols == c->ldw;
}

static double macs(const struct mf_call *c)
{
    return (double)(c->x[0].shared ? 0 : c->x[0].rows) * c->x[0].cols * c->y.cols;
}

static const struct mf_op op = {
    .name = "linear",
    .attributes = sizeof(struct mf_linear_how),
    .flows = ~0u,
    .forward = forward,
    .backward = backward,
    .sets = sets,
    .macs = macs,
    .by_rows = mf_ref_by_rows,
};

static struct mf_val record(struct mf_graph *g, int n, const struct mf_val *x, int cols, int W, int b,
                            const struct mf_linear_how *how)
{
    int rows = mf_rows(g, x[0]);
    struct mf_val y = mf_record(g, &op, how, n, x, rows, cols);
    struct mf_node *nd = mf_record_of(g, y);
    nd->W = W;
    nd->b = b;
    nd->aux_floats = mf_act_keeps(how->act) ? (size_t)rows * (size_t)cols : 0;
    return y;
}

struct mf_val mf_linear(struct mf_graph *g, struct mf_val x, int W, int from, int b, struct mf_val r1, struct mf_val r2,
                        enum mf_act act)
{
    const struct mf_param *p = mf_graph_params(g)->p;
    struct mf_val all[] = {x, r1, r2};
    int rows = mf_rows(g, x), cols = p[W].rows;
    bool spread = false; /* x has fewer rows than the result: compute its product once, then spread it */
    mf_record_want(g, from >= 0 && from + mf_cols(g, x) <= p[W].cols && (b < 0 || p[b].cols == cols), &op, 3, all);
    for (int i = 1; i < 3; i++)
        if (all[i].id) {
            spread = spread || (mf_is_shared(g, x) && !mf_is_shared(g, all[i])) || mf_rows(g, all[i]) > rows;
            mf_record_want(g, mf_cols(g, all[i]) == cols, &op, 3, all);
        }
    if (spread) {
        all[0] = mf_linear(g, x, W, from, b, MF_NONE, MF_NONE, MF_ACT_NONE);
        return mf_sum(g, 3, all, act);
    }
    for (int i = 1; i < 3; i++)
        mf_record_want(g, !all[i].id || mf_spreads(g, all[i], rows, cols), &op, 3, all);
    return record(g, 3, all, cols, W, b, &(struct mf_linear_how){.act = act, .from = from});
}

struct mf_val mf_linear_transposed(struct mf_graph *g, struct mf_val x, int W)
{
    const struct mf_param *p = mf_graph_params(g)->p;
    mf_record_want(g, mf_cols(g, x) == p[W].rows, &op, 1, &x);
    return record(g, 1, &x, p[W].cols, W, -1, &(struct mf_linear_how){.transposed = true});
}
