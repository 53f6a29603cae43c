/* mf-nstep: add n-step returns, and advantages over the values, to every rollout. */
#include "estimator.h"

static const struct mf_bind binds[] = {
    {"advantage.n_step", offsetof(struct mf_advantage, n_step)},
    {0},
};

ESTIMATOR(MF_NSTEP, .name = "nstep", .binds = binds,
          .summary = "Add n-step returns, and advantages over the values, to every rollout.",
          .examples = "  mf-collect | mf-nstep advantage.n_step=8 | mf-ppo\n")
