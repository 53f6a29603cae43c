/* reflow.h - reflow consistency: a loss that straightens a flow along its own chains.
 *
 * z1 is a chain's initial noise, z0 its final sample, both normalised; t = 1 is the noise, whatever the convention of
 * the policy, into which the inputs are converted:
 *
 *   x = t z1 + (1-t) z0,   loss = weight mean_{H,A} |v(x, t) - (z1 - z0)|^2
 *
 * That is the loss of rectified flow on the flow's own coupling (Liu et al. 2022, "Flow straight and fast", section
 * 2.2).
 */
#ifndef MF_FLOW_REFLOW_H
#define MF_FLOW_REFLOW_H

#include "dev/device.h"
#include "flow/policy.h"
#include "graph/plan.h"

struct mf_reflow {              /* values of a graph with this loss; MF_NONE: without */
    struct mf_val x, target;    /* inputs (1, D) */
    struct mf_val time, weight; /* inputs (1, 1); weight 0 masks the sample */
    struct mf_val step;         /* shared (1, 1): the step size, as sampling has it; MF_NONE: none */
    struct mf_val loss;         /* (1, 1) */
};

/* Adds the loss to a graph that has encoded the observation. */
void mf_reflow_build(struct mf_graph *g, const struct mf_policy_spec *s, const struct mf_share *obs,
                     struct mf_reflow *to);
void mf_reflow_set(struct mf_plan *plan, const struct mf_reflow *r, const struct mf_policy *p); /* the shared input */

/* The inputs x and target (D), and the time, of one sample. */
void mf_reflow_point(const struct mf_policy_spec *s, const float *z1, const float *z0, float t, float *x, float *target,
                     float *time);

#endif
