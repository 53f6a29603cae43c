/* ref_shape.c - what moves rows and columns about. */
#include <math.h>
#include <string.h>

#include "dev/ref.h"

void mf_ref_concat(const struct mf_call *c, int n)
{
    int M = mf_tile_rows(&c->y, n);
    for (int i = 0; i < M; i++) {
        float *to = c->y.data + (size_t)i * (size_t)c->y.cols;
        for (int k = 0; k < c->n_x; to += c->x[k++].cols)
            memcpy(to, c->x[k].data + (size_t)mf_row_of(&c->x[k], &c->y, i) * (size_t)c->x[k].cols,
                   sizeof(float) * (size_t)c->x[k].cols);
    }
}

void mf_ref_concat_back(const struct mf_call *c, int n, float *lane)
{
    int M = mf_tile_rows(&c->y, n);
    (void)lane;
    mf_ref_zero(c, n);
    for (int i = 0; i < M; i++) {
        const float *d = c->y.grad + (size_t)i * (size_t)c->y.cols;
        for (int k = 0; k < c->n_x; d += c->x[k++].cols)
            for (int j = 0; c->x[k].grad && j < c->x[k].cols; j++)
                c->x[k].grad[(size_t)mf_row_of(&c->x[k], &c->y, i) * (size_t)c->x[k].cols + (size_t)j] += d[j];
    }
}

/* Where the floats of sample s begin. */
static size_t sample_at(const struct mf_tensor *t, int s)
{
    return t->shared ? 0 : (size_t)s * (size_t)t->rows * (size_t)t->cols;
}

void mf_ref_stack(const struct mf_call *c, int n)
{
    for (int s = 0; s < (c->y.shared ? 1 : n); s++) {
        float *to = c->y.data + sample_at(&c->y, s);
        for (int k = 0; k < c->n_x; k++) {
            size_t size = (size_t)c->x[k].rows * (size_t)c->x[k].cols;
            memcpy(to, c->x[k].data + sample_at(&c->x[k], s), sizeof(float) * size);
            to += size;
        }
    }
}

void mf_ref_stack_back(const struct mf_call *c, int n, float *lane)
{
    (void)lane;
    mf_ref_zero(c, n);
    for (int s = 0; s < (c->y.shared ? 1 : n); s++) {
        const float *d = c->y.grad + sample_at(&c->y, s);
        for (int k = 0; k < c->n_x; k++) {
            size_t size = (size_t)c->x[k].rows * (size_t)c->x[k].cols;
            for (size_t j = 0; c->x[k].grad && j < size; j++)
                c->x[k].grad[sample_at(&c->x[k], s) + j] += d[j];
            d += size;
        }
    }
}

void mf_ref_rows(const struct mf_call *c, int n)
{
    size_t skip = (size_t)c->from * (size_t)c->y.cols, size = (size_t)c->y.rows * (size_t)c->y.cols;
    for (int s = 0; s < (c->y.shared ? 1 : n); s++)
        memcpy(c->y.data + sample_at(&c->y, s), c->x[0].data + sample_at(&c->x[0], s) + skip, sizeof(float) * size);
}

void mf_ref_rows_back(const struct mf_call *c, int n, float *lane)
{
    size_t skip = (size_t)c->from * (size_t)c->y.cols, size = (size_t)c->y.rows * (size_t)c->y.cols;
    (void)lane;
    mf_ref_zero(c, n);
    for (int s = 0; s < (c->y.shared ? 1 : n); s++)
        for (size_t j = 0; j < size; j++)
            c->x[0].grad[sample_at(&c->x[0], s) + skip + j] += c->y.grad[sample_at(&c->y, s) + j];
}

void mf_ref_cols(const struct mf_call *c, int n)
{
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++)
        memcpy(c->y.data + (size_t)i * (size_t)c->y.cols,
               c->x[0].data + (size_t)i * (size_t)c->x[0].cols + (size_t)c->from, sizeof(float) * (size_t)c->y.cols);
}

void mf_ref_cols_back(const struct mf_call *c, int n, float *lane)
{
    (void)lane;
    mf_ref_zero(c, n);
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++)
        for (int j = 0; j < c->y.cols; j++)
            c->x[0].grad[i * c->x[0].cols + c->from + j] += c->y.grad[i * c->y.cols + j];
}

void mf_ref_param(const struct mf_call *c, int n)
{
    (void)n;
    memcpy(c->y.data, c->W, sizeof(float) * (size_t)c->y.rows * (size_t)c->y.cols);
}

void mf_ref_param_back(const struct mf_call *c, int n, float *lane)
{
    (void)n;
    for (ptrdiff_t i = 0; i < (ptrdiff_t)c->y.rows * c->y.cols; i++)
        lane[c->dW + i] += c->y.grad[i];
}

/* aux: which of its rows is the largest, as a float. */
void mf_ref_pool(const struct mf_call *c, int n)
{
    int N = c->y.cols, some = c->x[0].rows / c->y.rows;
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++)
        for (int j = 0; j < N; j++) {
            const float *x = c->x[0].data + (size_t)i * (size_t)(some * N) + (size_t)j;
            float y = x[0], which = 0.0f;
            for (int r = 1; r < some; r++) {
                if (c->pool == MF_POOL_MEAN)
                    y += x[r * N];
                else if (x[r * N] > y || x[r * N] != x[r * N])
                    y = x[r * N], which = (float)r;
            }
            c->y.data[i * N + j] = c->pool == MF_POOL_MEAN ? y / (float)some : y;
            if (c->aux)
                c->aux[i * N + j] = which;
        }
}

void mf_ref_pool_back(const struct mf_call *c, int n, float *lane)
{
    int N = c->y.cols, some = c->x[0].rows / c->y.rows;
    (void)lane;
    mf_ref_zero(c, n);
    for (int i = 0; i < mf_tile_rows(&c->y, n); i++)
        for (int j = 0; j < N; j++) {
            float *dx = c->x[0].grad + (size_t)i * (size_t)(some * N) + (size_t)j, g = c->y.grad[i * N + j];
            if (c->pool == MF_POOL_MAX)
                dx[(int)c->aux[i * N + j] * N] += g;
            for (int r = 0; c->pool == MF_POOL_MEAN && r < some; r++)
                dx[r * N] += g / (float)some;
        }
}

void mf_ref_weigh(const struct mf_call *c, int n)
{
    size_t size = (size_t)c->y.rows * (size_t)c->y.cols;
    for (int s = 0; s < (c->y.shared ? 1 : n); s++) {
        const float *x = c->x[0].data + sample_at(&c->x[0], s);
        float *y = c->y.data + sample_at(&c->y, s), w = c->x[1].data[sample_at(&c->x[1], s)];
        for (size_t j = 0; j < size; j++)
            y[j] = w == 0.0f ? 0.0f : w * x[j];
    }
}

void mf_ref_weigh_back(const struct mf_call *c, int n, float *lane)
{
    size_t size = (size_t)c->y.rows * (size_t)c->y.cols;
    (void)lane;
    mf_ref_zero(c, n);
    for (int s = 0; s < (c->y.shared ? 1 : n); s++) {
        const float *d = c->y.grad + sample_at(&c->y, s);
        float *dx = c->x[0].grad + sample_at(&c->x[0], s), w = c->x[1].data[sample_at(&c->x[1], s)];
        for (size_t j = 0; w != 0.0f && j < size; j++)
            dx[j] += d[j] == 0.0f ? 0.0f : w * d[j];
    }
}

void mf_ref_sinusoid(const struct mf_call *c, int n)
{
    int M = mf_tile_rows(&c->y, n), half = c->y.cols / 2;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < half; j++) {
            double f = exp(-log(1e4) * j / (half > 1 ? half - 1 : 1));
            float angle = c->scale * c->x[0].data[i] * (float)f,
                  *y = c->y.data + (size_t)i * (size_t)c->y.cols + (size_t)j;
            y[0] = sinf(angle);
            y[half] = cosf(angle);
        }
}
