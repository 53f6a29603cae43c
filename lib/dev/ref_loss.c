/* ref_loss.c - the losses. Weight 0 is a masked row: nothing of it is read, its gradient is 0. */
#include <math.h>

#include "dev/ref.h"

struct ppo { /* one element: its loss, and what that is to the log-probability */
    double loss, slope;
};

/* Weight times the gradient above it: 0 where either is, whatever the other holds. */
static double weight_back(float weight, float grad)
{
    return grad == 0.0f ? 0.0 : (double)weight * (double)grad;
}

static double kept(double x, double limit)
{
    return limit <= 0.0 ? x : x < -limit ? -limit : x > limit ? limit : x;
}

static struct ppo ppo_element(double logp, double old, double adv, const float *knobs)
{
    double eps = (double)knobs[0], dual = (double)knobs[1], clamp = (double)knobs[2];
    double ratio = exp(kept(logp, clamp) - kept(old, clamp));
    double clipped = ratio < 1.0 - eps ? 1.0 - eps : ratio > 1.0 + eps ? 1.0 + eps : ratio;
    struct ppo p = {-adv * ratio, clamp > 0.0 && fabs(logp) > clamp ? 0.0 : -adv * ratio};
    if (-adv * clipped > p.loss)
        p = (struct ppo){-adv * clipped, 0.0};
    if (dual > 0.0 && adv < 0.0 && p.loss > dual * -adv)
        p = (struct ppo){dual * -adv, 0.0};
    return p;
}

void mf_ref_ppo_loss(const struct mf_call *c, int n)
{
    int E = c->x[0].cols;
    for (int s = 0; s < n; s++) {
        double sum = 0.0;
        for (int i = s * E; i < (s + 1) * E; i++)
            if (c->x[3].data[i] != 0.0f)
                sum += (double)c->x[3].data[i] * ppo_element((double)c->x[0].data[i], (double)c->x[1].data[i],
                                                             (double)c->x[2].data[s], c->x[4].data)
                                                     .loss;
        c->y.data[s] = (float)sum;
    }
}

void mf_ref_ppo_loss_back(const struct mf_call *c, int n, float *lane)
{
    int E = c->x[0].cols;
    (void)lane;
    mf_ref_zero(c, n);
    for (int i = 0; i < n * E; i++) {
        double w = weight_back(c->x[3].data[i], c->y.grad[i / E]);
        if (w != 0.0)
            c->x[0].grad[i] += (float)(w * ppo_element((double)c->x[0].data[i], (double)c->x[1].data[i],
                                                       (double)c->x[2].data[i / E], c->x[4].data)
                                               .slope);
    }
}

static struct ppo squared(double e, double delta)
{
    if (delta <= 0.0)
        return (struct ppo){e * e, 2.0 * e};
    if (fabs(e) < delta)
        return (struct ppo){0.5 * e * e, e};
    return (struct ppo){delta * (fabs(e) - 0.5 * delta), e < 0.0 ? -delta : delta};
}

static struct ppo value_element(double v, double ret, double old, const float *knobs)
{
    double clip = (double)knobs[0], delta = (double)knobs[1];
    struct ppo p = squared(v - ret, delta);
    if (clip > 0.0 && fabs(v - old) > clip) {
        struct ppo q = squared(old + kept(v - old, clip) - ret, delta);
        if (q.loss > p.loss)
            p = (struct ppo){q.loss, 0.0};
    }
    return p;
}

void mf_ref_value_loss(const struct mf_call *c, int n)
{
    for (int s = 0; s < n; s++) {
        double w = (double)c->x[3].data[s];
        c->y.data[s] = w == 0.0 ? 0.0f
                                : (float)(w * value_element((double)c->x[0].data[s], (double)c->x[1].data[s],
                                                            (double)c->x[2].data[s], c->x[4].data)
                                                  .loss);
    }
}

void mf_ref_value_loss_back(const struct mf_call *c, int n, float *lane)
{
    (void)lane;
    mf_ref_zero(c, n);
    for (int s = 0; s < n; s++) {
        double w = weight_back(c->x[3].data[s], c->y.grad[s]);
        if (w != 0.0)
            c->x[0].grad[s] += (float)(w * value_element((double)c->x[0].data[s], (double)c->x[1].data[s],
                                                         (double)c->x[2].data[s], c->x[4].data)
                                               .slope);
    }
}

static const float *sample(const struct mf_tensor *t, int s)
{
    return t->data + (t->shared ? 0 : (size_t)s * (size_t)t->rows * (size_t)t->cols);
}

void mf_ref_mse(const struct mf_call *c, int n)
{
    int size = c->x[0].rows * c->x[0].cols;
    for (int s = 0; s < n; s++) {
        const float *a = sample(&c->x[0], s), *b = sample(&c->x[1], s);
        double sum = 0.0, w = (double)sample(&c->x[2], s)[0];
        for (int j = 0; w != 0.0 && j < size; j++)
            sum += ((double)a[j] - (double)b[j]) * ((double)a[j] - (double)b[j]);
        c->y.data[s] = (float)(w * sum / size);
    }
}

void mf_ref_mse_back(const struct mf_call *c, int n, float *lane)
{
    int size = c->x[0].rows * c->x[0].cols;
    (void)lane;
    mf_ref_zero(c, n);
    for (int s = 0; s < n; s++) {
        const float *a = sample(&c->x[0], s), *b = sample(&c->x[1], s);
        double w = 2.0 * weight_back(sample(&c->x[2], s)[0], c->y.grad[s]) / size;
        for (int j = 0; w != 0.0 && j < size; j++)
            c->x[0].grad[(size_t)s * (size_t)size + (size_t)j] += (float)(w * ((double)a[j] - (double)b[j]));
    }
}
