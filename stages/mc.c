/* mf-mc: add Monte Carlo returns, and advantages over the values, to every rollout. */
#include "estimator.h"

static const struct mf_bind binds[] = {
    ESTIMATOR_BINDS,
    {0},
};

ESTIMATOR(MF_MC, .name = "mc", .binds = binds,
          .summary = "Add Monte Carlo returns, and advantages over the values, to every rollout.",
          .examples = "  mf-collect | mf-mc | mf-ppo\n")
