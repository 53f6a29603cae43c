/* ppo_priv.h - the learner: its graphs, which ppo.c builds and ppo_update.c runs (private to lib/rl). */
#ifndef MF_RL_PPO_PRIV_H
#define MF_RL_PPO_PRIV_H

#include "dev/device.h"
#include "flow/reflow.h"
#include "flow/score.h"
#include "rl/ppo.h"

/* A graph with the critic's loss, and with others. */
struct mf_ppo_loss {
    struct mf_graph *graph;
    struct mf_plan *plan;
    struct mf_val obs, value, returns, value_old, value_weight, knobs;
};

struct mf_ppo {
    struct mf_engine *engine;
    struct mf_policy *policy;
    struct mf_ppo_opts opts;
    struct mf_optimizer optimizer;

    struct mf_ppo_loss full, warmup; /* warmup: the critic alone */
    struct mf_score score;           /* of the full loss, as the values below */
    struct mf_val old, advantage, weight, entropy_weight, new_level, old_level, knobs;
    struct mf_val kl, kl_weight; /* MF_NONE without target_kl */
    struct mf_reflow reflow;     /* MF_NONE without training.rfc_coef */
    int width;                   /* ratios a row */
};

/* How many minibatches are under way at once. */
int mf_ppo_ahead(const struct mf_ppo *q);

#endif
