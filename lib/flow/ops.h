/* ops.h - the flow's own operations, each in a file op_NAME.c of this room. k runs over rows, d over D = H*A cols.
 *
 * Their attributes: flow_mean: float, the limit. flow_noise: struct mf_flow_noise_how. flow_entropy: float, the scale.
 * latent_std: struct mf_latent_std_how. latent_draw: float, the magnitude. reduce: struct mf_reduce_how.
 */
#ifndef MF_FLOW_OPS_H
#define MF_FLOW_OPS_H

#include "dev/device.h"
#include "graph/graph.h"

/* mean_kd = coef_k0 x_kd + coef_k1 v_kd, clamped to +-limit when limit > 0. coef (rows, 3) per sample. */
struct mf_val mf_flow_mean(struct mf_graph *g, struct mf_val x, struct mf_val v, struct mf_val coef, float limit);
/* std = exp(logvar/2), logvar = lmin + (lmax-lmin)(tanh(u)+1)/2; bounds (1, 2) shared: lmin, lmax. */
struct mf_val mf_noise_std(struct mf_graph *g, struct mf_val u, struct mf_val bounds);

struct mf_flow_noise_how {
    float clip, limit;
};
/* x' = mean + s*eps; s = coef_k2, times std (rows, D) where std is given. eps is clamped to +-clip when clip > 0,
 * x' to +-limit when limit > 0. No gradient (sampling). */
struct mf_val mf_flow_noise(struct mf_graph *g, struct mf_val mean, struct mf_val std, struct mf_val coef,
                            struct mf_val eps, float clip, float limit);
/* Elements -log s - log(2 pi)/2 - ((x'-mean)/s)^2/2, the same s; 0 where s = 0. next = x' (rows, D). */
struct mf_val mf_flow_logprob(struct mf_graph *g, struct mf_val next, struct mf_val mean, struct mf_val std,
                              struct mf_val coef);
/* Rate: sum over (rows, cols) of .5 log(2 pi e) + log std, times scale: (1, 1). */
struct mf_val mf_flow_entropy(struct mf_graph *g, struct mf_val std, float scale);

/* The latent actor's Gaussian (Wagenmaker et al. 2025; its squashed form: Haarnoja et al. 2018, appendix C); all (rows,
 * cols) of the same rows. */
struct mf_latent_std_how {
    float low, high;
};
/* exp(logstd), logstd clamped to [low, high]: beyond, its gradient is 0. */
struct mf_val mf_latent_std(struct mf_graph *g, struct mf_val logstd, float low, float high);
/* u = mean + std*eps; magnitude > 0: magnitude * tanh(u). eps MF_NONE: 0. No gradient into eps. */
struct mf_val mf_latent_draw(struct mf_graph *g, struct mf_val mean, struct mf_val std, struct mf_val eps,
                             float magnitude);
/* Elements of log pi of tanh(u), u as drawn: log N(u; mean, std^2) - log(1 - tanh(u)^2 + 1e-6), by the draw's gradient
 * into mean and std. */
struct mf_val mf_latent_logpi(struct mf_graph *g, struct mf_val mean, struct mf_val std, struct mf_val eps);

/* The granularity of the ratio, from elements (rows = steps, H*A). */
enum mf_reduce {
    MF_REDUCE_ALL,    /* scale * (sum of everything + sum of log N(first; 0, I)): (1, 1) */
    MF_REDUCE_TOKEN,  /* scale * (sum over rows + the same of first when given), executed slice: (1, C*A) */
    MF_REDUCE_ACTION, /* then sum over A: (1, C) */
    MF_REDUCE_CHUNK,  /* then sum over C: (1, 1) */
};
struct mf_reduce_how {
    enum mf_reduce to;
    int A, C, offset; /* executed: actions [offset, offset + C) of H, of A numbers each */
    float scale;
};
/* first (1, H*A) is the initial noise (no gradient), or MF_NONE. */
struct mf_val mf_reduce(struct mf_graph *g, struct mf_val elements, struct mf_val first, enum mf_reduce to, int A,
                        int C, int offset, float scale);

#endif
