/* ref_norm.c - norms, and the modulation that follows one. */
#include <math.h>

#include "dev/ref.h"

static bool all_zero(const float *x, int n)
{
    for (int j = 0; j < n; j++)
        if (x[j] != 0.0f)
            return false;
    return true;
}

/* One head of n columns of a block of rows that lie `apart`: stats become its mean and the factor to unit size. */
static void measure(const struct mf_call *c, const float *x, int n, int apart, float stats[2])
{
    double mean = 0.0, square = 0.0, all = (double)n * mf_norm_rows(c),
           count = c->norm == MF_NORM_RMS_LEGACY ? all - 1 : all;
    for (int r = 0; r < mf_norm_rows(c) && c->norm != MF_NORM_RMS; r++)
        for (int j = 0; j < n; j++)
            mean += (double)x[r * apart + j] / all;
    for (int r = 0; r < mf_norm_rows(c); r++)
        for (int j = 0; j < n; j++)
            square += ((double)x[r * apart + j] - mean) * ((double)x[r * apart + j] - mean) / count;
    stats[0] = (float)mean;
    stats[1] = (float)(1.0 / sqrt(square + (double)c->eps));
}

void mf_ref_norm(const struct mf_call *c, int n)
{
    int N = c->y.cols / c->heads, rows = mf_norm_rows(c), apart = c->x[0].cols, wide = mf_apart(&c->y);
    for (int i = 0; i < mf_tile_rows(&c->y, n) / rows * c->heads; i++) {
        int h = i % c->heads, first = i / c->heads * rows, own = h * mf_norm_step(c);
        const float *x = c->x[0].data + first * apart + c->from + h * N;
        float *y = c->y.data + mf_place(&c->y, n, first, h * N), here[2], *stats = c->aux ? c->aux + 2 * i : here;
        measure(c, x, N, apart, stats);
        for (int r = 0; r < rows; r++)
            for (int j = 0; j < N; j++) {
                float unit = (c->norm == MF_NORM_LAYER ? x[r * apart + j] - stats[0] : x[r * apart + j]) * stats[1];
                y[r * wide + j] = (c->W ? c->W[own + j] : 1.0f) * unit + (c->b ? c->b[own + j] : 0.0f);
            }
    }
}

/* With r = the factor, u = x - mean, s = sum of g (what was scaled): dx = r g - r^3 s u/count, less r mean(g) for a
 * layer norm. w: the head's weights, or NULL. */
static void back_to_x(const struct mf_call *c, const float *x, const float *dy, const float *w, const float stats[2],
                      int n, float *dx)
{
    int apart = c->x[0].cols, wide = mf_apart(&c->y), rows = mf_norm_rows(c);
    double r = (double)stats[1], sum = 0.0, mean = 0.0, all = (double)n * rows,
           count = c->norm == MF_NORM_RMS_LEGACY ? all - 1 : all;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < n; j++) {
            double g = (double)dy[i * wide + j] * (w ? (double)w[j] : 1.0);
            sum += g * ((double)x[i * apart + j] - (c->norm == MF_NORM_LAYER ? (double)stats[0] : 0.0));
            mean += c->norm == MF_NORM_LAYER ? g / all : 0.0;
        }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < n; j++) {
            double g = (double)dy[i * wide + j] * (w ? (double)w[j] : 1.0);
            dx[i * apart + j] +=
                (float)(r * (g - mean) - r * r * r * sum * ((double)x[i * apart + j] - (double)stats[0]) / count);
        }
}

void mf_ref_norm_back(const struct mf_call *c, int n, float *lane)
{
    int N = c->y.cols / c->heads, rows = mf_norm_rows(c), apart = c->x[0].cols, wide = mf_apart(&c->y);
    mf_ref_zero(c, n);
    for (int i = 0; i < mf_tile_rows(&c->y, n) / rows * c->heads; i++) {
        int h = i % c->heads, first = i / c->heads * rows, at = first * apart + c->from + h * N,
            own = h * mf_norm_step(c);
        const float *x = c->x[0].data + at, *dy = c->y.grad + mf_place(&c->y, n, first, h * N), *stats = c->aux + 2 * i;
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
                    lane[c->dW + own + j] += g * (c->norm == MF_NORM_LAYER ? u - stats[0] : u) * stats[1];
                if (c->db >= 0)
                    lane[c->db + own + j] += g;
            }
    }
}

static const float *row_of(const struct mf_call *c, int k, int i)
{
    return c->x[k].data + (size_t)mf_row_of(&c->x[k], &c->y, i) * (size_t)c->x[k].cols;
}

static float *grad_of(const struct mf_call *c, int k, int i)
{
    return c->x[k].grad ? c->x[k].grad + (size_t)mf_row_of(&c->x[k], &c->y, i) * (size_t)c->x[k].cols : NULL;
}

void mf_ref_modulate(const struct mf_call *c, int n)
{
    int N = c->y.cols;
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++) {
        const float *x = row_of(c, 0, i), *shift = row_of(c, 1, i) + c->from, *scale = shift + N;
        for (int j = 0; j < N; j++)
            c->y.data[i * N + j] = x[j] * (1.0f + scale[j]) + shift[j];
    }
}

void mf_ref_modulate_back(const struct mf_call *c, int n, float *lane)
{
    int N = c->y.cols;
    (void)lane;
    mf_ref_zero(c, n);
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++) {
        const float *x = row_of(c, 0, i), *scale = row_of(c, 1, i) + c->from + N, *g = c->y.grad + i * N;
        float *dx = grad_of(c, 0, i), *dm = grad_of(c, 1, i);
        for (int j = 0; j < N; j++) {
            if (g[j] == 0.0f)
                continue;
            if (dx)
                dx[j] += g[j] * (1.0f + scale[j]);
            if (dm) {
                dm[c->from + j] += g[j];
                dm[c->from + N + j] += g[j] * x[j];
            }
        }
    }
}

void mf_ref_gate(const struct mf_call *c, int n)
{
    int N = c->y.cols;
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++) {
        const float *h = row_of(c, 0, i), *x = row_of(c, 1, i), *gate = row_of(c, 2, i) + c->from;
        for (int j = 0; j < N; j++)
            c->y.data[i * N + j] = h[j] + gate[j] * x[j];
    }
}

void mf_ref_gate_back(const struct mf_call *c, int n, float *lane)
{
    int N = c->y.cols;
    (void)lane;
    mf_ref_zero(c, n);
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++) {
        const float *x = row_of(c, 1, i), *gate = row_of(c, 2, i) + c->from, *g = c->y.grad + i * N;
        float *dh = grad_of(c, 0, i), *dx = grad_of(c, 1, i), *dm = grad_of(c, 2, i);
        for (int j = 0; j < N; j++) {
            if (g[j] == 0.0f)
                continue;
            if (dh)
                dh[j] += g[j];
            if (dx)
                dx[j] += g[j] * gate[j];
            if (dm)
                dm[c->from + j] += g[j] * x[j];
        }
    }
}
