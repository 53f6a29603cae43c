/* latent.h - steering a frozen flow by its initial noise (DSRL: Wagenmaker et al. 2025, arXiv 2506.15799): the latent
 * actor's Gaussian, shared by sampling and scoring. Private to lib/flow and its users in lib/rl.
 *
 *   z ~ N(mu(s), sigma(s)^2) in R^{H*A}; with policy.steer=sac, z = magnitude * tanh(u), u ~ N(mu(s), sigma(s)^2)
 *
 * s: what the critic reads of the observation, without a gradient. log sigma is clamped to [-5, 2], of sac [-20, 2].
 */
#ifndef MF_FLOW_LATENT_H
#define MF_FLOW_LATENT_H

#include "dev/device.h"
#include "flow/spec.h"
#include "graph/plan.h"

struct mf_steering { /* (1, D) each */
    struct mf_val mean, std;
};
struct mf_steering mf_latent_build(struct mf_graph *g, const struct mf_policy_spec *s, const struct mf_share *obs);
/* The same of a summary of the observation (mf_net_summary), as an input. */
struct mf_steering mf_latent_of(struct mf_graph *g, const struct mf_policy_spec *s, struct mf_val summary);
/* The noise by eps ~ N(0, 1); MF_NONE: that of eps = 0. */
struct mf_val mf_latent_noise(struct mf_graph *g, const struct mf_policy_spec *s, const struct mf_steering *l,
                              struct mf_val eps);

/* Of policy.steer=ppo: unit is a shared (1, 3), which mf_latent_set sets. */
void mf_latent_set(struct mf_plan *plan, struct mf_val unit);
/* (1, D) of a noise z; and (1, E), their sum over all, or the executed ones (policy.steer_logprob). */
struct mf_val mf_latent_elements(struct mf_graph *g, const struct mf_steering *l, struct mf_val z, struct mf_val unit);
struct mf_val mf_latent_logprobs(struct mf_graph *g, const struct mf_policy_spec *s, struct mf_val elements);
/* (1, 1): the mean over the same entries. */
struct mf_val mf_latent_entropy(struct mf_graph *g, const struct mf_policy_spec *s, const struct mf_steering *l);

#endif
