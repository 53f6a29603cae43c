/* mf-mc: add Monte Carlo returns, and advantages over the values, to every rollout. */
#include "estimator.h"

ESTIMATOR(MF_MC, .name = "mc", .summary = "Add Monte Carlo returns, and advantages over the values, to every rollout.",
          .examples = "  mf-collect | mf-mc | mf-ppo\n  mf-replay low_dim.hdf5 | mf-mc | mf-stat\n")
