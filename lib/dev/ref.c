#include "dev/ref.h"

#include <math.h>
#include <string.h>

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

/* The derivative from what forward kept: y, and aux where it does not follow from y. */
static float slope_at(const struct mf_call *c, enum mf_act act, size_t at)
{
    float y = c->y.data[at];
    return act == MF_ACT_RELU ? (y > 0.0f ? 1.0f : 0.0f) : act == MF_ACT_TANH ? 1.0f - y * y : c->aux[at];
}

void mf_ref_zero(const struct mf_call *c, int n)
{
    for (int i = 0; i < c->n_x; i++)
        if (c->x[i].grad && !c->x[i].add)
            memset(c->x[i].grad, 0, sizeof(float) * (size_t)mf_tile_rows(&c->x[i], n) * (size_t)c->x[i].cols);
}

void mf_ref_add_act(const struct mf_call *c, int n, int first, enum mf_act act)
{
    int M = mf_tile_rows(&c->y, n), N = c->y.cols;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            size_t at = (size_t)i * (size_t)N + (size_t)j;
            float sum = c->y.data[at];
            for (int r = first; r < c->n_x; r++)
                sum += c->x[r].data[(size_t)mf_row_of(&c->x[r], &c->y, i) * (size_t)N + (size_t)j];
            c->y.data[at] = mf_ref_act(act, sum, c->aux ? &c->aux[at] : NULL);
        }
}

void mf_ref_add_act_back(const struct mf_call *c, int n, int first, enum mf_act act)
{
    int M = mf_tile_rows(&c->y, n), N = c->y.cols;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            size_t at = (size_t)i * (size_t)N + (size_t)j;
            float d = c->y.grad[at];
            c->y.grad[at] = d = d == 0.0f || act == MF_ACT_NONE ? d : d * slope_at(c, act, at);
            for (int r = first; r < c->n_x; r++)
                if (c->x[r].grad)
                    c->x[r].grad[(size_t)mf_row_of(&c->x[r], &c->y, i) * (size_t)N + (size_t)j] += d;
        }
}
