#include "rl/scale.h"

#include <math.h>

void mf_scale_init(struct mf_scale *s)
{
    *s = (struct mf_scale){.mean = 0, .var = 1, .count = 1e-4};
}

/* The returns of the valid rows, of which there are n. */
static void merge(struct mf_scale *s, size_t N, const uint8_t *valid, double n, const double *x)
{
    double mean = 0, var = 0;
    for (size_t i = 0; i < N; i++)
        mean += valid[i] ? x[i] / n : 0;
    for (size_t i = 0; i < N; i++)
        var += valid[i] ? (x[i] - mean) * (x[i] - mean) / n : 0;
    double total = s->count + n, delta = mean - s->mean;
    s->var = (s->var * s->count + var * n + delta * delta * s->count * n / total) / total;
    s->mean += delta * n / total;
    s->count = total;
}

void mf_scale_step(struct mf_scale *s, size_t N, double gamma, const float *reward, const uint8_t *valid,
                   const uint8_t *ended, double *running, float *scaled)
{
    size_t n = 0;
    for (size_t i = 0; i < N; i++) {
        running[i] = valid[i] ? (double)reward[i] + gamma * running[i] : 0;
        n += valid[i] != 0;
    }
    if (n)
        merge(s, N, valid, (double)n, running);
    for (size_t i = 0; i < N; i++) {
        scaled[i] = valid[i] ? (float)fmax(-10, fmin(10, (double)reward[i] / sqrt(s->var + 1e-8))) : 0;
        if (ended[i])
            running[i] = 0;
    }
}
