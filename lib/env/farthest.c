#include "env/farthest.h"

#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum { BLOCK = 32, BLOCKS = MF_FARTHEST_MAX / BLOCK, LANES = 8 };

struct blocks { /* of BLOCK points each: their box, and the largest distance among them */
    size_t n;   /* a multiple of LANES */
    float low[3][BLOCKS], high[3][BLOCKS], top[BLOCKS], gap[BLOCKS];
    float at[3][MF_FARTHEST_MAX], away[MF_FARTHEST_MAX]; /* away: squared distance to the nearest one taken */
};

INLINE float least(float a, float b)
{
    return a < b ? a : b;
}

INLINE float most(float a, float b)
{
    return a > b ? a : b;
}

INLINE float outside(float p, float low, float high)
{
    return most(most(low - p, p - high), 0);
}

/* Padding of the last blocks is never selected. */
INLINE void divide(struct blocks *b, size_t total, const float *const at[3])
{
    b->n = (total + BLOCK * LANES - 1) / (BLOCK * LANES) * LANES;
    for (size_t i = 0; i < b->n * BLOCK; i++) {
        for (int a = 0; a < 3; a++)
            b->at[a][i] = at[a][i < total ? i : total - 1];
        b->away[i] = i < total ? INFINITY : -1;
    }
    for (size_t k = 0; k < b->n; k++) {
        b->top[k] = k * BLOCK < total ? INFINITY : -1;
        for (int a = 0; a < 3; a++) {
            b->low[a][k] = INFINITY, b->high[a][k] = -INFINITY;
            for (size_t i = k * BLOCK; i < (k + 1) * BLOCK; i++) {
                b->low[a][k] = least(b->at[a][i], b->low[a][k]);
                b->high[a][k] = most(b->at[a][i], b->high[a][k]);
            }
        }
    }
}

/* A new point has been taken: the distances in block k. */
INLINE void update(struct blocks *b, size_t k, const float p[3])
{
    const float *x = b->at[0] + k * BLOCK, *y = b->at[1] + k * BLOCK, *z = b->at[2] + k * BLOCK;
    float *away = b->away + k * BLOCK, top[LANES];
    for (int i = 0; i < BLOCK; i++) {
        float dx = x[i] - p[0], dy = y[i] - p[1], dz = z[i] - p[2];
        away[i] = least(dx * dx + dy * dy + dz * dz, away[i]);
    }
    for (int i = 0; i < LANES; i++)
        top[i] = most(most(away[i], away[i + LANES]), most(away[i + 2 * LANES], away[i + 3 * LANES]));
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            top[i] = most(top[i], top[i + half]);
    b->top[k] = top[0];
}

INLINE size_t highest(const struct blocks *b)
{
    float lane[LANES], top = -1;
    for (int i = 0; i < LANES; i++)
        lane[i] = -1;
    for (size_t k = 0; k < b->n; k += LANES)
        for (int i = 0; i < LANES; i++)
            lane[i] = most(b->top[k + (size_t)i], lane[i]);
    for (int i = 0; i < LANES; i++)
        top = most(lane[i], top);
    size_t k = 0, i;
    while (k + 1 < b->n && b->top[k] != top)
        k++;
    for (i = 0; i + 1 < BLOCK && b->away[k * BLOCK + i] != top;)
        i++;
    return k * BLOCK + i;
}

/* A block whose box is farther away than its points are from those taken does not change: float rounding keeps that
 * order. */
INLINE void farthest(size_t total, const float *const at[3], size_t n, uint16_t *picked)
{
    struct blocks b;
    divide(&b, total, at);
    for (size_t i = 0, last = 0; i < n; i++) {
        const float p[3] = {b.at[0][last], b.at[1][last], b.at[2][last]};
        picked[i] = (uint16_t)last;
        for (size_t k = 0; k < b.n; k++) {
            float x = outside(p[0], b.low[0][k], b.high[0][k]), y = outside(p[1], b.low[1][k], b.high[1][k]),
                  z = outside(p[2], b.low[2][k], b.high[2][k]);
            b.gap[k] = x * x + y * y + z * z;
        }
        for (size_t k = 0; k < b.n; k++)
            if (b.gap[k] < b.top[k])
                update(&b, k, p);
        last = highest(&b);
    }
}

__attribute__((target("avx2"))) static void farthest_avx2(size_t total, const float *const at[3], size_t n,
                                                          uint16_t *picked)
{
    farthest(total, at, n, picked);
}

static void farthest_plain(size_t total, const float *const at[3], size_t n, uint16_t *picked)
{
    farthest(total, at, n, picked);
}

void mf_farthest(size_t total, const float *x, const float *y, const float *z, size_t n, uint16_t *picked)
{
    (__builtin_cpu_supports("avx2") ? farthest_avx2 : farthest_plain)(total, (const float *const[3]){x, y, z}, n,
                                                                      picked);
}
