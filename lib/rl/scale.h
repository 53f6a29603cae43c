/* scale.h - running reward scale: divide by the standard deviation of the discounted return.
 *
 *   ret_n = r_n + gamma ret_n (0 after an end);  rewards_scaled = r / sqrt(var(ret) + 1e-8), within +-10
 *
 * One scaler per source; its variance is over all environments and decisions
 * so far, merged batch by batch (Chan et al. 1979) from mean 0, var 1, count
 * 1e-4. A row with valid = 0 is no transition: the variance leaves it out, its
 * scaled reward is 0, and the return restarts after it.
 */
#ifndef MF_RL_SCALE_H
#define MF_RL_SCALE_H

#include <stddef.h>
#include <stdint.h>

struct mf_scale {
    double mean, var, count;
};

void mf_scale_init(struct mf_scale *s);
/* One decision of N environments: updates, then scales. Arrays are (N); running: the discounted return of each. */
void mf_scale_step(struct mf_scale *s, size_t N, double gamma, const float *reward, const uint8_t *valid,
                   const uint8_t *ended, double *running, float *scaled);

#endif
