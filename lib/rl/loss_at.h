/* loss_at.h - the losses of PPO (losses.h) as functions of one element: for the operations' loops, a GPU's kernels, and
 * the metrics. knobs: those of the operation.
 */
#ifndef MF_RL_LOSS_AT_H
#define MF_RL_LOSS_AT_H

#include <math.h>
#include <stdbool.h>

#include "base/everywhere.h"

struct mf_loss_at {
    double loss, slope;
};

/* x within +-limit; limit 0: x */
MF_EVERYWHERE static inline double mf_within(double x, double limit)
{
    return limit <= 0.0 ? x : x < -limit ? -limit : x > limit ? limit : x;
}

/* The logarithm of a ratio, of log-probabilities that are first kept within the clamp. It is bounded, since losses of
 * FPO may differ by any amount. */
enum { MF_LOG_RATIO_MAX = 20 };
MF_EVERYWHERE static inline double mf_log_ratio_at(double logp, double old, double clamp)
{
    return mf_within(mf_within(logp, clamp) - mf_within(old, clamp), MF_LOG_RATIO_MAX);
}

/* slope: the derivative by the log of the ratio. aspo: where adv < 0, SPO's penalty |adv|/(2 eps) (ratio - 1)^2 in
 * place of the clip (Yi et al. 2026). */
MF_EVERYWHERE static inline struct mf_loss_at mf_ppo_loss_at(double ratio, double adv, double eps, double dual,
                                                             bool aspo)
{
    if (aspo && adv < 0.0) {
        const double far = ratio - 1.0;
        struct mf_loss_at q = {-adv * (ratio + far * far / (2.0 * eps)), -adv * ratio * (1.0 + far / eps)};
        return q;
    }
    double clipped = ratio < 1.0 - eps ? 1.0 - eps : ratio > 1.0 + eps ? 1.0 + eps : ratio;
    struct mf_loss_at p = {-adv * ratio, -adv * ratio};
    if (-adv * clipped > p.loss) {
        p.loss = -adv * clipped;
        p.slope = 0.0;
    }
    if (dual > 0.0 && adv < 0.0 && p.loss > dual * -adv) {
        p.loss = dual * -adv;
        p.slope = 0.0;
    }
    return p;
}

/* knobs: eps, dual, clamp, aspo (0 or 1) */
MF_EVERYWHERE static inline struct mf_loss_at mf_ppo_element(const float *knobs, float logp, float old, float adv)
{
    double clamp = (double)knobs[2], lr = mf_log_ratio_at((double)logp, (double)old, clamp);
    struct mf_loss_at p = mf_ppo_loss_at(exp(lr), (double)adv, (double)knobs[0], (double)knobs[1], knobs[3] > 0.0f);
    if ((clamp > 0.0 && fabs((double)logp) > clamp) || fabs(lr) >= MF_LOG_RATIO_MAX)
        p.slope = 0.0;
    return p;
}

MF_EVERYWHERE static inline double mf_kl_at(double log_ratio)
{
    return exp(log_ratio) - 1.0 - log_ratio;
}

MF_EVERYWHERE static inline double mf_kl_element(const float *knobs, float logp, float old)
{
    return mf_kl_at(mf_log_ratio_at((double)logp, (double)old, (double)knobs[2]));
}

/* e^2, or Huber's loss where delta > 0; slope: the derivative by e. */
MF_EVERYWHERE static inline struct mf_loss_at mf_squared_at(double e, double delta)
{
    struct mf_loss_at p = {e * e, 2.0 * e};
    if (delta <= 0.0)
        return p;
    bool near = fabs(e) < delta;
    p.loss = near ? 0.5 * e * e : delta * (fabs(e) - 0.5 * delta);
    p.slope = near ? e : e < 0.0 ? -delta : delta;
    return p;
}

/* slope: the derivative by v. */
MF_EVERYWHERE static inline struct mf_loss_at mf_value_loss_at(double v, double ret, double old, double clip,
                                                               double delta)
{
    struct mf_loss_at p = mf_squared_at(v - ret, delta);
    if (clip > 0.0 && fabs(v - old) > clip) {
        struct mf_loss_at q = mf_squared_at(old + mf_within(v - old, clip) - ret, delta);
        if (q.loss > p.loss) {
            p.loss = q.loss;
            p.slope = 0.0;
        }
    }
    return p;
}

MF_EVERYWHERE static inline struct mf_loss_at mf_value_element(const float *knobs, float v, float ret, float old)
{
    return mf_value_loss_at((double)v, (double)ret, (double)old, (double)knobs[0], (double)knobs[1]);
}

#endif
