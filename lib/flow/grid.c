#include "flow/grid.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

double mf_noise_level(enum mf_level_schedule schedule, double low, double high, double progress)
{
    double p = progress < 0 ? 0 : progress > 1 ? 1 : progress;
    double end = .3 * low + .7 * high;
    switch (schedule) {
    case MF_LINEAR:
        return high * (1 - p) + low * p;
    case MF_EXPONENTIAL:
        return low + (high - low) * exp(-3 * p);
    case MF_HOLD_COSINE:
        return p < .35 ? high : end + (high - end) * .5 * (1 + cos(pi * (p - .35) / .65));
    case MF_CONSTANT:
        break;
    }
    return high;
}

double mf_flow_time(const struct mf_policy_spec *s, int k)
{
    return (double)(s->convention == MF_NOISE0 ? k : s->K - k) / s->K;
}

/* In noise1: x' = xd*a + xn*b with xd = x - t v (data) and xn = x + (1-t) v (noise). */
void mf_flow_coef(const struct mf_policy_spec *s, int k, double level, bool stochastic, float coef[3])
{
    double delta = 1.0 / s->K, t = (double)(s->K - k) / s->K, after = (double)(s->K - k - 1) / s->K;
    double cx = 1, cv = -delta, std = 0;
    switch (stochastic ? s->noise_method : MF_FLOW_ODE) {
    case MF_FLOW_NOISE:
        std = s->learned_noise ? 1 : level;
        break;
    case MF_FLOW_SDE: {
        double variance = level * level * t / (1 - (k == 0 ? after : t)), pull = variance * delta / (2 * t);
        cx = 1 - pull;
        cv = -delta - pull * (1 - t);
        std = sqrt(delta * variance);
        break;
    }
    case MF_FLOW_CPS: {
        double a = 1 - after, b = after * cos(pi * level / 2);
        cx = a + b;
        cv = (1 - t) * b - t * a;
        std = after * sin(pi * level / 2);
        break;
    }
    case MF_FLOW_ODE:
        break;
    }
    coef[0] = (float)cx;
    coef[1] = (float)(s->convention == MF_NOISE0 ? -cv : cv);
    coef[2] = (float)std;
}
