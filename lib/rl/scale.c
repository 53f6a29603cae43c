#include "rl/scale.h"

#include <math.h>

void mf_scale_init(struct mf_scale *s)
{
    *s = (struct mf_scale){.mean = 0, .var = 1, .count = 1e-4};
}

static void merge(struct mf_scale *s, size_t N, const double *x)
{
    double n = (double)N, mean = 0, var = 0;
    for (size_t i = 0; i < N; i++)
        mean += x[i] / n;
    for (size_t i = 0; i < N; i++)
        var += (x[i] - mean) * (x[i] - mean) / n;
    double total = s->count + n, delta = mean - s->mean;
    s->var = (s->var * s->count + var * n + delta * delta * s->count * n / total) / total;
    s->mean += delta * n / total;
    s->count = total;
}

void mf_scale_step(struct mf_scale *s, size_t N, double gamma, const float *reward, const uint8_t *ended,
                   double *running, float *scaled)
{
    for (size_t i = 0; i < N; i++)
        running[i] = (double)reward[i] + gamma * running[i];
    merge(s, N, running);
    for (size_t i = 0; i < N; i++) {
        scaled[i] = (float)fmax(-10, fmin(10, (double)reward[i] / sqrt(s->var + 1e-8)));
        if (ended[i])
            running[i] = 0;
    }
}
