/* op_norm.c - layer, RMS and group norms. */
#include <math.h>

#include "dev/ref.h"
#include "graph/record.h"
#include "op/ops.h"

static bool all_zero(const float *x, int n)
{
    for (int j = 0; j < n; j++)
        if (x[j] != 0.0f)
            return false;
    return true;
}

/* The mean and the factor to unit size of one head, n columns of a block of rows that are `apart` floats apart. */
static void measure(const struct mf_call *c, const float *x, int n, int apart, float stats[2])
{
    const struct mf_norm_how *how = c->how;
    double mean = 0.0, square = 0.0, all = (double)n * mf_norm_rows(c),
           count = how->norm == MF_NORM_RMS_LEGACY ? all - 1 : all;
    for (int r = 0; r < mf_norm_rows(c) && how->norm != MF_NORM_RMS; r++)
        for (int j = 0; j < n; j++)
            mean += (double)x[r * apart + j] / all;
    for (int r = 0; r < mf_norm_rows(c); r++)
        for (int j = 0; j < n; j++)
            square += ((double)x[r * apart + j] - mean) * ((double)x[r * apart + j] - mean) / count;
    stats[0] = (float)mean;
    stats[1] = (float)(1.0 / sqrt(square + (double)how->eps));
}

static void forward(const struct mf_call *c, int n)
{
    const struct mf_norm_how *how = c->how;
    int N = c->y.cols / how->heads, rows = mf_norm_rows(c), apart = c->x[0].cols, wide = mf_row_stride(&c->y);
    for (int i = 0; i < mf_tile_rows(&c->y, n) / rows * how->heads; i++) {
        int h = i % how->heads, first = i / how->heads * rows, own = h * mf_norm_step(c);
        const float *x = c->x[0].data + first * apart + how->from + h * N;
        float *y = c->y.data + mf_offset(&c->y, n, first, h * N), here[2], *stats = c->aux ? c->aux + 2 * i : here;
        measure(c, x, N, apart, stats);
        for (int r = 0; r < rows; r++)
            for (int j = 0; j < N; j++) {
                float unit = (how->norm == MF_NORM_LAYER ? x[r * apart + j] - stats[0] : x[r * apart + j]) * stats[1];
                y[r * wide + j] = (c->W ? c->W[own + j] : 1.0f) * unit + (c->b ? c->b[own + j] : 0.0f);
            }
    }
}

/* With r = the factor, u = x - mean, s = sum of g (what was scaled): dx = r g - r^3 s u/count, less r mean(g) for a
 * layer norm. w: the head's weights, or NULL. */
static void back_to_x(const struct mf_call *c, const float *x, const float *dy, const float *w, const float stats[2],
                      int n, float *dx)
{
    const struct mf_norm_how *how = c->how;
    int apart = c->x[0].cols, wide = mf_row_stride(&c->y), rows = mf_norm_rows(c);
    double r = (double)stats[1], sum = 0.0, mean = 0.0, all = (double)n * rows,
           count = how->norm == MF_NORM_RMS_LEGACY ? all - 1 : all;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < n; j++) {
            double g = (double)dy[i * wide + j] * (w ? (double)w[j] : 1.0);
            sum += g * ((double)x[i * apart + j] - (how->norm == MF_NORM_LAYER ? (double)stats[0] : 0.0));
            mean += how->norm == MF_NORM_LAYER ? g / all : 0.0;
        }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < n; j++) {
            double g = (double)dy[i * wide + j] * (w ? (double)w[j] : 1.0);
            dx[i * apart + j] +=
                (float)(r * (g - mean) - r * r * r * sum * ((double)x[i * apart + j] - (double)stats[0]) / count);
        }
}

static void backward(const struct mf_call *c, int n, float *lane)
{
    const struct mf_norm_how *how = c->how;
    int N = c->y.cols / how->heads, rows = mf_norm_rows(c), apart = c->x[0].cols, wide = mf_row_stride(&c->y);
    mf_ref_zero(c, n);
    for (int i = 0; i < mf_tile_rows(&c->y, n) / rows * how->heads; i++) {
        int h = i % how->heads, first = i / how->heads * rows, at = first * apart + how->from + h * N,
            own = h * mf_norm_step(c);
        const float *x = c->x[0].data + at, *dy = c->y.grad + mf_offset(&c->y, n, first, h * N),
                    *stats = c->aux + 2 * i;
        bool none = true;
        for (int r = 0; r < rows; r++)
            none = none && all_zero(dy + r * wide, N);
        if (none)
            continue;
        if (c->x[0].grad)
            back_to_x(c, x, dy, c->W ? c->W + own : NULL, stats, N, c->x[0].grad + at);
        for (int r = 0; r < rows; r++)
            for (int j = 0; j < N; j++) {
                float g = dy[r * wide + j], u = x[r * apart + j];
                if (c->dW >= 0)
                    lane[c->dW + own + j] += g * (how->norm == MF_NORM_LAYER ? u - stats[0] : u) * stats[1];
                if (c->db >= 0)
                    lane[c->db + own + j] += g;
            }
    }
}

/* Where attention is the only reader, it reads a head in sequence. */
static int heads(const struct mf_call *c, int k)
{
    const struct mf_norm_how *how = c->how;
    return k < 0 ? how->heads : 1;
}

static bool by_rows(const struct mf_call *c)
{
    return mf_norm_rows(c) == 1 && mf_ref_by_rows(c);
}

static const struct mf_op op = {
    .name = "norm",
    .attributes = sizeof(struct mf_norm_how),
    .flows = 1,
    .forward = forward,
    .backward = backward,
    .heads = heads,
    .by_rows = by_rows,
};

static struct mf_val record(struct mf_graph *g, struct mf_val x, int cols, int W, int b, const struct mf_norm_how *how)
{
    struct mf_val y = mf_record(g, &op, how, 1, &x, mf_rows(g, x), cols);
    struct mf_node *nd = mf_record_of(g, y);
    nd->W = W;
    nd->b = b;
    nd->aux_floats = (size_t)(mf_rows(g, x) / how->rows) * (size_t)how->heads * 2; /* the mean and the factor */
    return y;
}

struct mf_val mf_norm(struct mf_graph *g, struct mf_val x, int from, int cols, int n_heads, enum mf_norm norm, int W,
                      int b, float eps)
{
    const struct mf_param *p = mf_graph_params(g)->p;
    struct mf_norm_how how = {.norm = norm, .from = from, .heads = n_heads, .rows = 1, .eps = eps};
    bool fits = from >= 0 && n_heads > 0 && cols % n_heads == 0 && from + cols <= mf_cols(g, x);
    mf_record_want(g, fits && (W < 0 || p[W].cols == cols / n_heads) && (b < 0 || p[b].cols == cols / n_heads), &op, 1,
                   &x);
    return record(g, x, cols, W, b, &how);
}

struct mf_val mf_group_norm(struct mf_graph *g, struct mf_val x, int blocks, int groups, int W, int b, float eps)
{
    const struct mf_param *p = mf_graph_params(g)->p;
    struct mf_norm_how how = {.norm = MF_NORM_LAYER, .heads = groups, .rows = mf_rows(g, x) / blocks, .eps = eps};
    int cols = mf_cols(g, x);
    mf_record_want(g, mf_rows(g, x) % blocks == 0 && cols % groups == 0 && p[W].cols == cols && p[b].cols == cols, &op,
                   1, &x);
    return record(g, x, cols, W, b, &how);
}
