/* advantage.h - how much better an action was than expected: three estimators over one walk back in time.
 *
 *   g     = gamma, or gamma^n_exec with MF_DISCOUNT_STEP
 *   nv_t  = 0 if terminated, final_value if truncated, else v_{t+1}, or last_value at the last step
 *   GAE   A_t = r_t + g nv_t - v_t + g lambda A_{t+1} unless ended      (Schulman et al. 2016, eq. 16)
 *   MC    R_t = r_t + g (nv_t if ended or cut, else R_{t+1}),  A_t = R_t - v_t
 *   n     R_t nests n of those steps, and nv of the last of them        (Sutton & Barto 2018, eq. 7.1)
 *
 * Terminated wins over truncated. R_t = A_t + v_t throughout. Entries with
 * valid = 0 or loss_mask = 0 are never read: their A and R are 0 and an
 * episode begins after them. Results are raw; mf_advantage_normalize is for
 * who learns from them.
 */
#ifndef MF_RL_ADVANTAGE_H
#define MF_RL_ADVANTAGE_H

#include "base/err.h"
#include "conf/conf.h"
#include "stream/rollout.h"

enum mf_estimator { MF_GAE, MF_MC, MF_NSTEP };
enum mf_discount { MF_DISCOUNT_CHUNK, MF_DISCOUNT_STEP }; /* the order of the key's words, as below */
enum mf_chunk_reward { MF_REWARD_SUM, MF_REWARD_MAX };

/* Whose treatment of time limits. Other than NONE they are known to be wrong. */
enum mf_compat {
    MF_COMPAT_NONE,
    MF_COMPAT_CLEANRL, /* a truncation bootstraps 0 */
    MF_COMPAT_DPPO,    /* a truncation is not seen: value and trace leak in from the next episode */
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

/* Bind a rollout frame, and add its advantages and returns. */
int mf_advantage_add(const struct mf_advantage *a, enum mf_estimator how, struct mf_frame *f, struct mf_err *err);

/* In place: (a - mean) / (std + 1e-8), std unbiased, in double. Entry i counts count[i] times (NULL: once); where that
 * is 0 it is masked and becomes 0. One entry, or equal ones, give exactly 0. */
void mf_advantage_normalize(float *a, const uint32_t *count, size_t n);

#endif
