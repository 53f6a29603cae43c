/* sac.h - soft actor-critic over the initial noise of a frozen flow (DSRL: Wagenmaker et al. 2025, arXiv 2506.15799;
 * SAC: Haarnoja et al. 2018).
 *
 *   w = magnitude * tanh(u), u ~ N(mu(s), sigma(s)^2);  a = flow(s, w), the executed actions
 *   na     y = r + gamma (1-d) (min_j Q'_j(s', a') - alpha log pi(w'|s'));  1/2 sum_j (Q_j(s, a) - y)^2
 *          distilled: w ~ N(0, 1), 1/2 sum_j (Qw_j(s, w) - Q_j(s, flow(s, w)))^2
 *   noise  y = r + gamma (1-d) (min_j Qw'_j(s', w') - alpha log pi(w'|s')); 1/2 sum_j (Qw_j(s, w) - y)^2
 *   actor  alpha log pi(w|s) - min_j Qw_j(s, w);  log alpha: -log alpha (log pi + target entropy)
 *
 * d is 1 at the end of an episode, at a time limit, too, as published. gamma is per decision.
 */
#ifndef MF_RL_SAC_H
#define MF_RL_SAC_H

#include "conf/conf.h"
#include "flow/policy.h"
#include "graph/plan.h"
#include "nn/net.h"
#include "rl/replay.h"
#include "rl/rows.h"

enum mf_sac_form { MF_SAC_NA, MF_SAC_NOISE };

struct mf_sac_opts {          /* the keys of that name (conf/sac.inc) */
    int64_t seed, save_every; /* versions between checkpoints; 0: 1 */
    double gamma;
#define SAC(key, type, ...) MF_VALUE_##type(key)
#include "conf/sac.inc"
};

struct mf_sac; /* networks, plans, replay buffer, counters */

/* Borrows engine and policy, which may be an outline. */
int mf_sac_new(struct mf_sac **s, struct mf_engine *e, struct mf_policy *p, const struct mf_sac_opts *o,
               struct mf_err *err);
void mf_sac_free(struct mf_sac *s);
void mf_sac_memory(const struct mf_sac *s, size_t n, struct mf_memory *to); /* adds that of rounds of n decisions */

struct mf_sac_stats { /* means over the gradient steps of a round; NaN: none */
    double critic_loss, distill_loss, actor_loss, q, log_pi, alpha, actor_grad_norm, learning_rate;
    int64_t steps;
    size_t replay; /* decisions in the buffer */
};
/* Adds the round to the buffer and takes its gradient steps; the policy's latent actor is the trained one afterwards.
 * MF_EMATH: a loss is not finite. */
int mf_sac_update(struct mf_sac *s, const struct mf_rows *rows, struct mf_err *err);
const struct mf_sac_stats *mf_sac_stats(const struct mf_sac *s); /* of the last update */
bool mf_sac_explores(const struct mf_sac *s); /* the warm-up goes on: the noise of the next round is N(0, 1) */

/* Writes the round of this version, unless it is written, to a folder of the run. */
int mf_sac_keep(struct mf_sac *s, const char *folder, int64_t version, struct mf_err *err);
/* What a resumed run needs beside the checkpoint of this version, in that folder; and back. */
int mf_sac_save(struct mf_sac *s, const char *folder, int64_t version, struct mf_err *err);
int mf_sac_load(struct mf_sac *s, const char *folder, int64_t version, struct mf_err *err);
void mf_sac_start(struct mf_sac *s); /* the actor begins as the policy's */

#endif
