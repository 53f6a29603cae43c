/* grid.h - the time grid of sampling and scoring, and the coefficients of its steps. */
#ifndef MF_FLOW_GRID_H
#define MF_FLOW_GRID_H

#include "flow/spec.h"

enum mf_level_schedule { MF_CONSTANT, MF_LINEAR, MF_EXPONENTIAL, MF_HOLD_COSINE };

/* The noise (sigma's upper bound, or the level) at progress p of a schedule, from high at 0 to low at 1. HOLD_COSINE
 * stays at high until .35, then falls to .3 low + .7 high. */
double mf_noise_level(enum mf_level_schedule schedule, double low, double high, double progress);

/* (cx, cv, s) of step k for mean = cx x + cv v, std = s, in the policy's own convention; `stochastic` false: the
 * ODE step, s = 0. For learned noise s is 1, a factor of the net's std. */
void mf_flow_coef(const struct mf_policy_spec *s, int k, double level, bool stochastic, float coef[3]);
double mf_flow_time(const struct mf_policy_spec *s, int k); /* t_k */

#endif
