/* fpo.h - flow policy optimisation: an action is scored by its flow-matching loss (McAllister et al. 2025, "Flow
 * Matching Policy Gradients", eq. 9 and 10; a ratio for each draw: Yi et al. 2026, "Flow Policy Gradients for Robot
 * Control").
 *
 *   log p(a) := -l,   l_m = mean over H*A of (v(x_m, t_m) - u_m)^2,   m = 1 .. M draws of time and noise
 *
 * x_m lies on the straight path between noise and action, u_m is its velocity. The number in a stream differs from -l
 * by a constant, log(pi)/2, which no ratio has. Private to lib/flow and its users in lib/rl.
 */
#ifndef MF_FLOW_FPO_H
#define MF_FLOW_FPO_H

#include "dev/device.h"
#include "flow/policy.h"
#include "graph/graph.h"
#include "graph/plan.h"

struct mf_fpo_draws { /* of one decision */
    float *noise;     /* (M, D) N(0, 1) */
    float *time;      /* (M, 1) uniform in [0, 1), of the policy's convention */
    float *coef;      /* (M, 3): of noise and action in x, and the std of the loss's Gaussian */
};
/* The draws that `key`, an element of the stream's `draws`, names. */
void mf_fpo_draw(const struct mf_policy_spec *s, uint64_t key, const struct mf_fpo_draws *to);

struct mf_fpo {
    struct mf_val noise, time, coef; /* inputs: (M, D), (M, 1), (M, 3) */
    struct mf_val sides;             /* shared (1, 3): of action and noise in u */
};
/* The inputs; and (M, D), log N(u; v, 1/2) of each element for a sample (1, D). step: as net.h's. */
void mf_fpo_inputs(struct mf_graph *g, const struct mf_policy_spec *s, struct mf_fpo *f);
struct mf_val mf_fpo_elements(struct mf_graph *g, const struct mf_policy_spec *s, const struct mf_fpo *f,
                              const struct mf_share *obs, struct mf_val step, struct mf_val sample);
void mf_fpo_set(struct mf_plan *plan, const struct mf_fpo *f, const struct mf_policy_spec *s); /* the shared input */
/* (1, E): their mean, or a mean for each draw. */
struct mf_val mf_fpo_logprobs(struct mf_graph *g, const struct mf_policy_spec *s, struct mf_val elements);

#endif
