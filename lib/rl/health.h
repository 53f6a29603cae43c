/* health.h - early signs of trouble in a round, and a diagnosis of a run from its metrics. */
#ifndef MF_RL_HEALTH_H
#define MF_RL_HEALTH_H

#include <stdio.h>

#include "flow/policy.h"
#include "run/history.h"
#include "rl/rows.h"

struct mf_health {            /* of a round; NaN: undefined */
    double action_saturation; /* share of the final actions' elements at or beyond the environment's +-1 */
    double obs_outside;       /* share of the observations' elements beyond +-2, where the normaliser's range is +-1 */
    double sigma_place;       /* learned noise: the position of log sigma between its bounds, 0 lower, 1 upper */
};
struct mf_ranks;
/* entropy: as the update reports it, the mean over the chain's K+1 entries. ranks: those that share out the rows'
 * observations, if any do: all call it, and it fails with MF_EIO as ranks do. */
int mf_health_of(struct mf_health *h, const struct mf_rows *r, const struct mf_policy *p, double entropy,
                 struct mf_ranks *ranks, struct mf_err *err);

/* Prints a line for each known problem in these metrics: the problem and the keys to change. Returns the number of
 * lines.
 */
int mf_diagnose(const struct mf_history *h, FILE *to);

#endif
