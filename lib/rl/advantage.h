/* advantage.h - advantages and returns of a rollout: three estimators over one backward pass in time.
 *
 *   g     = gamma, or gamma^n_exec with MF_DISCOUNT_STEP
 *   nv_t  = 0 if terminated, final_value if truncated, else v_{t+1}, or last_value at the last step
 *   GAE   A_t = r_t + g nv_t - v_t + g lambda A_{t+1} unless ended      (Schulman et al. 2016, eq. 16)
 *   MC    R_t = r_t + g (nv_t if ended or cut, else R_{t+1}),  A_t = R_t - v_t
 *   n     R_t sums at most n of those steps, then bootstraps nv         (Sutton & Barto 2018, eq. 7.1)
 *
 * Terminated takes precedence over truncated. R_t = A_t + v_t in all three.
 * Entries with valid = 0 or loss_mask = 0 are never read: their A and R are 0
 * and an episode begins after them. Results are not normalised; the learner
 * normalises them by mf_advantage_normalize.
 */
#ifndef MF_RL_ADVANTAGE_H
#define MF_RL_ADVANTAGE_H

#include "base/err.h"
#include "conf/conf.h"
#include "stream/rollout.h"

enum mf_estimator { MF_GAE, MF_MC, MF_NSTEP };
enum mf_discount { MF_DISCOUNT_CHUNK, MF_DISCOUNT_STEP }; /* the order of the key's words, as below */
enum mf_chunk_reward { MF_REWARD_SUM, MF_REWARD_MAX };

/* Compatibility with the treatment of time limits in published code. All but NONE are known to be wrong. */
enum mf_compat {
    MF_COMPAT_NONE,
    MF_COMPAT_CLEANRL, /* a truncation bootstraps 0 */
    MF_COMPAT_DPPO,    /* truncations are ignored: value and trace leak in from the next episode */
    MF_COMPAT_SEED,    /* as CleanRL, and last_value is 0 */
};

struct mf_advantage {
    double gamma, gae_lambda;
    int64_t n_step;
    int discount, reward, compat; /* the enums above */
};

extern const struct mf_bind mf_advantage_binds[]; /* the keys that all estimators read */

/* advantages and returns (T, N). MF_EUSAGE where the choices contradict each other; MF_EFORMAT where an episode
 * runs into masked entries without an end. */
int mf_advantage(const struct mf_advantage *a, enum mf_estimator how, const struct mf_rollout *r, float *advantages,
                 float *returns, struct mf_err *err);

/* Adds advantages and returns to a rollout frame. Of one without values MF_MC takes them as 0: its advantages are the
 * returns, and nothing follows a time limit. */
int mf_advantage_add(const struct mf_advantage *a, enum mf_estimator how, struct mf_frame *f, struct mf_err *err);

/* In place: (a - mean) / (std + 1e-8), std unbiased, in double. Entry i counts count[i] times (NULL: once). An entry of
 * count 0 is masked and becomes 0. A single entry or equal entries become exactly 0. */
void mf_advantage_normalize(float *a, const uint32_t *count, size_t n);

#endif
