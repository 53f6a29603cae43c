/* mf-gae: add generalised advantage estimates and returns to every rollout. */
#include "estimator.h"

static const struct mf_bind binds[] = {
    {"advantage.gae_lambda", offsetof(struct mf_advantage, gae_lambda)},
    {0},
};

ESTIMATOR(MF_GAE, .name = "gae", .binds = binds,
          .summary = "Add generalised advantage estimates and returns to every rollout.",
          .examples = "  mf-collect | mf-gae advantage.gae_lambda=.9 | mf-ppo\n")
