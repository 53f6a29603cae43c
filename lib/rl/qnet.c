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

static struct mf_layer linear(struct mf_graph *g, const struct mf_qnet *q, const char *name, int in, int out)
{
    return q->ortho ? mf_layer_ortho(g, MF_GROUP_CRITIC, name, in, out, out == 1 ? .01f : sqrtf(2))
                    : mf_layer(g, MF_GROUP_CRITIC, name, in, out);
}

static struct mf_val critic(struct mf_graph *g, const struct mf_qnet *q, int i, struct mf_val x)
{
    char name[96];
    for (int l = 0; l < q->n_hidden; l++) {
        snprintf(name, sizeof name, "%.64s.q_nets.%d.%d", q->prefix, i, 3 * l);
        x = mf_layer_apply(g, linear(g, q, name, mf_cols(g, x), q->hidden[l]), x, MF_ACT_NONE);
        snprintf(name, sizeof name, "%.64s.q_nets.%d.%d", q->prefix, i, 3 * l + 1);
        x = mf_activate(g, normed(g, name, x), q->act);
    }
    snprintf(name, sizeof name, "%.64s.q_nets.%d.%d", q->prefix, i, 3 * q->n_hidden);
    return mf_layer_apply(g, linear(g, q, name, mf_cols(g, x), 1), x, MF_ACT_NONE);
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
