/* score.h - the graph from a decision's chain, or its sample, to its log-probabilities, for the update.
 *
 * Sampling and scoring build their steps by chain.h, so the PPO ratio is
 * exactly 1 before the first update.
 */
#ifndef MF_FLOW_SCORE_H
#define MF_FLOW_SCORE_H

#include "dev/device.h"
#include "flow/fpo.h"
#include "flow/policy.h"
#include "graph/plan.h"

struct mf_score {            /* inputs to feed, values to use */
    struct mf_val obs;       /* (1, O) normalised, as spec.net.obs */
    struct mf_val chain;     /* joint: (K+1, D). single: (2, D): x_k, x_{k+1} of the drawn k. FPO: (1, D), the sample.
                              * Steered: (1, D), the initial noise */
    struct mf_val time;      /* joint: shared (K, 1). single: (1, 1) per sample. FPO: (M, 1) per sample */
    struct mf_val step;      /* shared (k, 1): the step size for nets that take one, else MF_NONE */
    struct mf_val coef;      /* (k, 3) per sample, of mf_flow_coef or mf_fpo_draw; k = K, 1 or M */
    struct mf_val bounds;    /* shared (1, 2): log-variance bounds of learned noise, else MF_NONE */
    struct mf_val rest;      /* shared (1, 1): the initial noise's share of the entropy, else MF_NONE */
    struct mf_fpo fpo;       /* its inputs, two of which are `time` and `coef`; else MF_NONE */
    struct mf_val unit;      /* steered: latent.h's, else MF_NONE */
    struct mf_val elements;  /* (k, D) */
    struct mf_val logprobs;  /* (1, E) as the stream's prev_logprobs */
    struct mf_val entropy;   /* (1, 1), or MF_NONE where sigma has no parameters */
    struct mf_val value;     /* (1, 1), or MF_NONE */
    struct mf_share encoded; /* the observation, for more velocities in the same graph */
};
void mf_score_build(struct mf_graph *g, struct mf_policy *p, struct mf_score *out);
/* Adds every parameter that sampling and scoring use to p->params. */
void mf_score_params(struct mf_policy *p);
void mf_score_set(struct mf_plan *plan, const struct mf_score *s, const struct mf_policy *p); /* the shared inputs */

#endif
