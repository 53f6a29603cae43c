/* ref_linear.c - matrices and what is added to them, in plain loops. */
#include <math.h>
#include <string.h>

#include "dev/ref.h"

float mf_ref_act(enum mf_act act, float x, float *slope)
{
    float y = x, d = 1.0f;
    if (act == MF_ACT_RELU) {
        y = x > 0.0f ? x : 0.0f;
        d = x > 0.0f ? 1.0f : 0.0f;
    } else if (act == MF_ACT_TANH) {
        y = tanhf(x);
        d = 1.0f - y * y;
    } else if (act == MF_ACT_MISH) { /* x tanh(log(1 + e^x)); past 20 the tanh is 1 in floats */
        float e = expf(x < 20.0f ? x : 20.0f), w = e * (e + 2.0f), t = w / (w + 2.0f);
        y = x * t;
        d = t + x * (1.0f - t * t) * e / (1.0f + e);
    } else if (act == MF_ACT_SILU) {
        float s = 1.0f / (1.0f + expf(-x));
        y = x * s;
        d = s * (1.0f + x * (1.0f - s));
    } else if (act == MF_ACT_GELU) { /* Hendrycks & Gimpel 2016, its tanh form */
        const float a = 0.7978845608f, b = 0.044715f;
        float t = tanhf(a * (x + b * x * x * x));
        y = 0.5f * x * (1.0f + t);
        d = 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * a * (1.0f + 3.0f * b * x * x);
    }
    if (slope)
        *slope = d;
    return y;
}

/* The derivative from what forward kept: y, and aux for what y does not tell. */
static float slope_at(const struct mf_call *c, size_t at)
{
    float y = c->y.data[at];
    return c->act == MF_ACT_RELU ? (y > 0.0f ? 1.0f : 0.0f) : c->act == MF_ACT_TANH ? 1.0f - y * y : c->aux[at];
}

void mf_ref_zero(const struct mf_call *c, int n)
{
    for (int i = 0; i < c->n_x; i++)
        if (c->x[i].grad && !c->x[i].add)
            memset(c->x[i].grad, 0, sizeof(float) * (size_t)mf_tile_rows(&c->x[i], n) * (size_t)c->x[i].cols);
}

/* y = act(y + the operands from `first` on) */
static void add_act(const struct mf_call *c, int n, int first)
{
    int M = mf_tile_rows(&c->y, n), N = c->y.cols;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            size_t at = (size_t)i * (size_t)N + (size_t)j;
            float sum = c->y.data[at];
            for (int r = first; r < c->n_x; r++)
                sum += c->x[r].data[(size_t)mf_row_of(&c->x[r], &c->y, i) * (size_t)N + (size_t)j];
            c->y.data[at] = mf_ref_act(c->act, sum, c->aux ? &c->aux[at] : NULL);
        }
}

/* y.grad becomes the gradient before the activation, and goes to the operands from `first` on. */
static void add_act_back(const struct mf_call *c, int n, int first)
{
    int M = mf_tile_rows(&c->y, n), N = c->y.cols;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            size_t at = (size_t)i * (size_t)N + (size_t)j;
            float d = c->y.grad[at];
            c->y.grad[at] = d = d == 0.0f || c->act == MF_ACT_NONE ? d : d * slope_at(c, at);
            for (int r = first; r < c->n_x; r++)
                if (c->x[r].grad)
                    c->x[r].grad[(size_t)mf_row_of(&c->x[r], &c->y, i) * (size_t)N + (size_t)j] += d;
        }
}

void mf_ref_sum(const struct mf_call *c, int n)
{
    memset(c->y.data, 0, sizeof(float) * (size_t)mf_tile_rows(&c->y, n) * (size_t)c->y.cols);
    add_act(c, n, 0);
}

void mf_ref_sum_back(const struct mf_call *c, int n, float *lane)
{
    (void)lane;
    mf_ref_zero(c, n);
    add_act_back(c, n, 0);
}

/* Where the weight from column k of x to column j of y lies. */
static size_t weight_at(const struct mf_call *c, int j, int k)
{
    size_t ld = (size_t)c->ldw;
    return c->turned ? (size_t)k * ld + (size_t)j : (size_t)j * ld + (size_t)(c->from + k);
}

void mf_ref_linear(const struct mf_call *c, int n)
{
    int M = mf_tile_rows(&c->y, n), N = c->y.cols, K = c->x[0].cols;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            const float *x = c->x[0].data + (size_t)i * (size_t)K;
            float sum = 0.0f;
            for (int k = 0; k < K; k++)
                sum += x[k] * c->W[weight_at(c, j, k)];
            c->y.data[(size_t)i * (size_t)N + (size_t)j] = sum + (c->b ? c->b[j] : 0.0f);
        }
    add_act(c, n, 1);
}

void mf_ref_linear_back(const struct mf_call *c, int n, float *lane)
{
    int M = mf_tile_rows(&c->y, n), N = c->y.cols, K = c->x[0].cols;
    mf_ref_zero(c, n);
    add_act_back(c, n, 1);
    if (c->sets)
        memset(lane + c->dW, 0, sizeof(float) * (size_t)(c->turned ? K : N) * (size_t)c->ldw);
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
