/* losses.h - the losses of PPO as operations of a graph: weighted, and (1, 1) per sample. An element of weight 0 is
 * masked: its operands are not read and its gradient is 0. loss_at.h has them as functions of one element.
 */
#ifndef MF_RL_LOSSES_H
#define MF_RL_LOSSES_H

#include "dev/device.h"
#include "graph/graph.h"

/* sum_e weight_e * max(-adv*ratio, -adv*clip(ratio, 1-eps, 1+eps)), ratio = exp(new - old), e over cols of new
 * (Schulman et al. 2017). new and old are first kept within +-clamp when clamp > 0 (gradient 0 outside); dual > 0: at
 * most dual*|adv| where adv < 0; aspo 1: where adv < 0, adv*ratio - |adv|/(2 eps) (ratio - 1)^2 is maximised instead
 * (Yi et al. 2026). old, weight (1, E); adv (1, 1); knobs (1, 4) shared: eps, dual, clamp, aspo. The log of the ratio
 * is kept within +-20 (gradient 0 outside). */
struct mf_val mf_ppo_loss(struct mf_graph *g, struct mf_val logp, struct mf_val old, struct mf_val adv,
                          struct mf_val weight, struct mf_val knobs);
/* weight * e^2 (or Huber), the larger of it and that of the clipped value when clip > 0.
 * v, ret, old, weight (1, 1); knobs (1, 4) shared: clip, huber delta, 0, 0. */
struct mf_val mf_value_loss(struct mf_graph *g, struct mf_val v, struct mf_val ret, struct mf_val old,
                            struct mf_val weight, struct mf_val knobs);

/* sum_e weight_e ((ratio - 1) - log ratio), ratio as above: Schulman's k3 estimator of the KL divergence (2020). No
 * gradient. logp, old, weight (1, E); knobs as above. */
struct mf_val mf_kl(struct mf_graph *g, struct mf_val logp, struct mf_val old, struct mf_val weight,
                    struct mf_val knobs);

#endif
