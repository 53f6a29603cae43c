/* adamw.h - one number in a step of AdamW (Loshchilov & Hutter 2019) and in the average of the weights, the same on
 * every device.
 */
#ifndef MF_DEV_ADAMW_H
#define MF_DEV_ADAMW_H

#include <math.h>

#include "dev/device.h"

struct mf_adamw { /* of a group, in one step */
    float b1, c1, b2, c2, scale, rate, root, keep, eps;
};

/* What clipping multiplies a group's gradient by. norm: the group's; total: over all that is trained. */
MF_EVERYWHERE static inline double mf_clip_scale(const struct mf_step *s, double norm, double total)
{
    double of = s->separate ? norm : total;
    return s->max_norm > 0 && of > s->max_norm ? s->max_norm / of : 1;
}

/* steps: of the group, this one included. */
MF_EVERYWHERE static inline struct mf_adamw mf_adamw_of(const struct mf_step *s, int group, int64_t steps, double scale)
{
    struct mf_adamw a;
    a.b1 = (float)s->beta1;
    a.c1 = (float)(1.0 - s->beta1);
    a.b2 = (float)s->beta2;
    a.c2 = (float)(1.0 - s->beta2);
    a.scale = (float)scale;
    a.rate = (float)(s->lr[group] / (1.0 - pow(s->beta1, (double)steps)));
    a.root = (float)(1.0 / sqrt(1.0 - pow(s->beta2, (double)steps)));
    a.keep = (float)(1.0 - s->lr[group] * s->weight_decay);
    a.eps = (float)s->eps;
    return a;
}

/* A weight w and its moments m and v, by its gradient g. */
MF_EVERYWHERE static inline void mf_adamw(const struct mf_adamw *a, float g, float *w, float *m, float *v)
{
    float d = g * a->scale;
    *m = a->b1 * *m + a->c1 * d;
    *v = a->b2 * *v + a->c2 * d * d;
    *w = a->keep * *w - a->rate * *m / (sqrtf(*v) * a->root + a->eps);
}

/* A weight's average, by s->ema_decay. */
MF_EVERYWHERE static inline float mf_average(const struct mf_step *s, float average, float w)
{
    return (float)s->ema_decay * average + (float)(1.0 - s->ema_decay) * w;
}

#endif
