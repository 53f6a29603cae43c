#include "rl/qnet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"
#include "nn/mlp.h"
#include "op/ops.h"

static const float norm_eps = 1e-5f;

static struct mf_val normed(struct mf_graph *g, const char *name, struct mf_val x)
{
    struct mf_params *ps = mf_graph_params(g);
    const int n = mf_cols(g, x);
    char full[128];
    snprintf(full, sizeof full, "%s.weight", name);
    int W = mf_param_add(ps, full, 1, n, 1, MF_GROUP_CRITIC, MF_INIT_CONST, 1);
    snprintf(full, sizeof full, "%s.bias", name);
    int b = mf_param_add(ps, full, 1, n, 1, MF_GROUP_CRITIC, MF_INIT_CONST, 0);
    return mf_norm(g, x, 0, n, 1, MF_NORM_LAYER, W, b, norm_eps);
}

static struct mf_val critic(struct mf_graph *g, const struct mf_qnet *q, int i, struct mf_val x)
{
    char name[96];
    for (int l = 0; l < q->n_hidden; l++) {
        snprintf(name, sizeof name, "%.64s.q_nets.%d.%d", q->prefix, i, 3 * l);
        struct mf_layer linear = mf_layer(g, MF_GROUP_CRITIC, name, mf_cols(g, x), q->hidden[l]);
        x = mf_layer_apply(g, linear, x, MF_ACT_NONE);
        snprintf(name, sizeof name, "%.64s.q_nets.%d.%d", q->prefix, i, 3 * l + 1);
        x = mf_activate(g, normed(g, name, x), q->act);
    }
    snprintf(name, sizeof name, "%.64s.q_nets.%d.%d", q->prefix, i, 3 * q->n_hidden);
    return mf_layer_apply(g, mf_layer(g, MF_GROUP_CRITIC, name, mf_cols(g, x), 1), x, MF_ACT_NONE);
}

static struct mf_val side_by_side(struct mf_graph *g, int n, struct mf_val *v)
{
    return n > 1 ? mf_concat(g, n, v) : v[0];
}

struct mf_val mf_qnet(struct mf_graph *g, const struct mf_qnet *q, struct mf_val action, struct mf_val obs)
{
    struct mf_val x = action.id ? mf_concat(g, 2, (struct mf_val[]){action, obs}) : obs;
    struct mf_val *value = mf_xcalloc((size_t)q->n, sizeof *value);
    for (int i = 0; i < q->n; i++)
        value[i] = critic(g, q, i, x);
    struct mf_val all = side_by_side(g, q->n, value);
    free(value);
    return all;
}

struct mf_val mf_qnet_loss(struct mf_graph *g, const struct mf_qnet *q, struct mf_val values, struct mf_val y,
                           struct mf_val weight)
{
    struct mf_val *same = mf_xcalloc((size_t)q->n, sizeof *same);
    for (int i = 0; i < q->n; i++)
        same[i] = y;
    struct mf_val loss = mf_mse(g, values, side_by_side(g, q->n, same), weight);
    free(same);
    mf_loss(g, loss, q->n == 2 ? 2 : 1);
    return loss;
}

void mf_qnet_pair(int n, struct mf_rng *rng, int pair[2])
{
    pair[0] = (int)mf_rng_below(rng, (uint32_t)n);
    pair[1] = (int)mf_rng_below(rng, (uint32_t)n - 1);
    if (pair[1] >= pair[0])
        pair[1]++;
}

float mf_qnet_min(const float *values, int n, const int *which)
{
    float least = INFINITY;
    for (int i = 0; i < n; i++) {
        const float x = values[which ? which[i] : i];
        least = x < least || x != x ? x : least; /* NaN stays */
    }
    return least;
}

/* ---- initial values ---- */

/* Makes the n rows of x, `wide` numbers each, n <= wide, orthonormal: Gram and Schmidt's way, twice, as one pass leaves
 * the rounding of nearly parallel rows. */
static void orthonormalize(double *x, size_t n, size_t wide)
{
    for (size_t i = 0; i < n; i++) {
        double *row = x + i * wide, square = 0;
        for (size_t j = 0; j < 2 * i; j++) {
            const double *of = x + j % i * wide;
            double along = 0;
            for (size_t k = 0; k < wide; k++)
                along += row[k] * of[k];
            for (size_t k = 0; k < wide; k++)
                row[k] -= along * of[k];
        }
        for (size_t k = 0; k < wide; k++)
            square += row[k] * row[k];
        for (size_t k = 0; k < wide; k++)
            row[k] /= sqrt(square);
    }
}

/* A random orthogonal matrix times `gain` (Saxe et al. 2014). */
static void orthogonal(float *to, size_t rows, size_t cols, double gain, struct mf_rng *rng)
{
    const size_t n = rows < cols ? rows : cols, wide = rows < cols ? cols : rows;
    double *x = mf_xcalloc(n * wide, sizeof *x);
    for (size_t i = 0; i < n * wide; i++) {
        float z;
        mf_rng_normal(rng, &z, 1);
        x[i] = (double)z;
    }
    orthonormalize(x, n, wide);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            to[r * cols + c] = (float)(gain * (rows < cols ? x[r * wide + c] : x[c * wide + r]));
    free(x);
}

void mf_qnet_fresh(struct mf_params *ps, uint64_t seed)
{
    mf_params_fresh(ps, seed); /* the norms' */
    for (int i = 0; i < ps->n; i++) {
        const struct mf_param *p = &ps->p[i];
        struct mf_rng rng = mf_rng_at(seed, MF_RNG_INIT, 1, (uint32_t)i, 0);
        float *to = ps->value + p->at;
        if (p->rank == 2)
            orthogonal(to, (size_t)p->rows, (size_t)p->cols, p->rows == 1 ? .01 : sqrt(2), &rng);
        for (int j = 0; p->init == MF_INIT_UNIFORM && p->rank == 1 && j < p->cols; j++)
            to[j] = 0;
    }
    mf_params_touch(ps);
}
