/* health.h - how a run is doing: shares of a round that show trouble early, and what its metrics say in words. */
#ifndef MF_RL_HEALTH_H
#define MF_RL_HEALTH_H

#include <stdio.h>

#include "flow/policy.h"
#include "run/history.h"
#include "rl/rows.h"

struct mf_health {            /* of a round; NaN where it cannot be said */
    double action_saturation; /* share of the final actions' elements at or beyond the environment's +-1 */
    double obs_outside;       /* share of the observations' elements beyond +-2, where the normaliser's range is +-1 */
    double sigma_place;       /* learned noise: where log sigma lies between its bounds, 0 the lower, 1 the upper */
};
/* entropy: as the update reports it, the mean over the chain's K+1 entries. */
struct mf_health mf_health_of(const struct mf_rows *r, const struct mf_policy *p, double entropy);

/* The usual troubles that these metrics show, a line each: what, since when, and the keys to change. Returns how many.
 */
int mf_diagnose(const struct mf_history *h, FILE *to);

#endif
