/* chain.h - one denoising step and a chain's log-probability, shared by sampling and scoring. Private to lib/flow.
 */
#ifndef MF_FLOW_CHAIN_H
#define MF_FLOW_CHAIN_H

#include "flow/ops.h"
#include "dev/device.h"
#include "flow/policy.h"
#include "graph/plan.h"
#include "op/ops.h"

struct mf_chain_step { /* N(mean, std^2), (k, D) each; std MF_NONE: coef_k2 alone */
    struct mf_val mean, std;
};

/* The step from x (k, D) at the times of `time`. The mean is clamped to +-limit. bounds MF_NONE: no learned noise. */
struct mf_chain_step mf_chain_step_build(struct mf_graph *g, const struct mf_policy_spec *s, const struct mf_share *obs,
                                         const struct mf_share *time, struct mf_val x, struct mf_val coef,
                                         struct mf_val bounds, float limit);

/* (k, D): the log-probabilities of the elements of the chain (k+1, D) under its steps. */
struct mf_val mf_chain_elements(struct mf_graph *g, struct mf_val chain, struct mf_chain_step step, struct mf_val coef);
/* Of x (rows, H*W) the numbers of the environment's actions: (rows, H*A). x itself where W = A, or it is MF_NONE. */
struct mf_val mf_chain_executable(struct mf_graph *g, const struct mf_policy_spec *s, struct mf_val x);
/* (1, E): their reduction by the objective. */
struct mf_val mf_chain_logprobs(struct mf_graph *g, const struct mf_policy_spec *s, struct mf_val elements,
                                struct mf_val chain);

/* Sets the shared values except those that are MF_NONE. rows: K, or 1 for the drawn step, whose time is fed. */
void mf_chain_step_set(struct mf_plan *plan, const struct mf_policy *p, int rows, struct mf_val time,
                       struct mf_val step, struct mf_val bounds);

#endif
