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

/* slope: the derivative by the log of the ratio. */
MF_EVERYWHERE static inline struct mf_loss_at mf_ppo_loss_at(double ratio, double adv, double eps, double dual)
{
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

/* Of log-probabilities, which are first kept within the clamp: knobs 2. */
MF_EVERYWHERE static inline struct mf_loss_at mf_ppo_element(const float *knobs, float logp, float old, float adv)
{
    double clamp = (double)knobs[2], ratio = exp(mf_within((double)logp, clamp) - mf_within((double)old, clamp));
    struct mf_loss_at p = mf_ppo_loss_at(ratio, (double)adv, (double)knobs[0], (double)knobs[1]);
    if (clamp > 0.0 && fabs((double)logp) > clamp)
        p.slope = 0.0;
    return p;
}

MF_EVERYWHERE static inline double mf_kl_at(double log_ratio)
{
    return exp(log_ratio) - 1.0 - log_ratio;
}

MF_EVERYWHERE static inline double mf_kl_element(const float *knobs, float logp, float old)
{
    double clamp = (double)knobs[2];
    return mf_kl_at(mf_within((double)logp, clamp) - mf_within((double)old, clamp));
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
