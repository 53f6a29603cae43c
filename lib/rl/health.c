#include "rl/health.h"

#include <math.h>
#include <string.h>

#include "eval/eval.h"
#include "nn/net.h"
#include "rl/rows_obs.h"

static const double FAR = 2; /* of a normalised observation; the demonstrations' limits are at 1 */

static double saturation(const struct mf_rows *r, const struct mf_policy *p)
{
    const int A = p->spec.action_dim, W = mf_action_width(&p->spec); /* of W numbers the environment's come first */
    size_t n = 0;
    if (p->spec.denoise != MF_JOINT || p->spec.steer || !r->n_live)
        return NAN; /* the drawn step need not be the last; a steered row has the first point alone */
    for (size_t i = 0; i < r->n_live; i++) {
        const float *x = r->chain + ((size_t)r->live[i] * (size_t)r->P + (size_t)r->P - 1) * (size_t)r->D;
        for (int d = 0; d < r->D; d++)
            n += d % W < A && fabsf((x[d] - p->action_offset[d % W]) / p->action_scale[d % W]) >= 1;
    }
    return (double)n / ((double)r->n_live * (r->D / W) * A);
}

/* Has it a range of its own? Encodings, codes and pictures have none. */
static int ranged(const struct mf_obs *o)
{
    return strcmp(o->name, MF_ENCODING) && !mf_obs_is_code(o) ? mf_obs_features(o) : 0;
}

/* Each rank counts the observations that it has. */
static int outside(const struct mf_rows *r, const struct mf_net_spec *net, struct mf_ranks *ranks, double *share,
                   struct mf_err *err)
{
    int64_t count[2] = {0}; /* outside; in all */
    size_t rows;
    const uint32_t *row = mf_rows_here(r, &rows);
    for (size_t i = 0; i < rows; i++) {
        const float *x = r->obs + (r->ranks ? i : (size_t)row[i]) * (size_t)r->O;
        for (int o = 0; o < net->n_obs_steps; o++)
            for (int q = 0; q < net->obs.n; x += mf_obs_size(&net->obs.key[q++])) {
                const int features = ranged(&net->obs.key[q]);
                for (int j = 0; j < features; j++)
                    count[0] += fabs((double)x[j]) > FAR;
                count[1] += features;
            }
    }
    int rc = r->ranks ? mf_ranks_add(ranks, count, 2, err) : 0;
    *share = count[1] ? (double)count[0] / (double)count[1] : NAN;
    return rc;
}

/* The entropy of a Gaussian is log(2 pi e)/2 + log sigma; the chain's first entry has sigma 1. */
static double place(const struct mf_policy *p, double entropy)
{
    const double unit = 0.5 * log(2 * M_PI * M_E), low = log(p->noise_low), high = log(p->noise_high);
    const double K = p->spec.denoise == MF_JOINT ? p->spec.K : 0;
    if (!p->spec.learned_noise || !(high > low))
        return NAN;
    return ((K > 0 ? (K + 1) / K : 1) * (entropy - unit) - low) / (high - low);
}

int mf_health_of(struct mf_health *h, const struct mf_rows *r, const struct mf_policy *p, double entropy,
                 struct mf_ranks *ranks, struct mf_err *err)
{
    *h = (struct mf_health){.action_saturation = saturation(r, p), .sigma_place = place(p, entropy)};
    return outside(r, &p->spec.net, ranks, &h->obs_outside, err);
}

/* ---- diagnosis ---- */

enum { LATELY = 10 };                            /* the last iterations that count */
enum how { MEAN_ABOVE, MEAN_BELOW, EVER_ABOVE }; /* over LATELY, over LATELY, over the run */

static const struct rule {
    const char *series;
    enum how how;
    double limit;
    const char *what, *advice; /* what: a format for the value */
} rules[] = {
    {"train/logratio_gap", EVER_ABOVE, 1e-3, "log-probabilities differ by %.2g before the first step",
     "the rollouts came from other weights or another device: start mf-ppo from the collector's policy.checkpoint, or "
     "set training.recompute_logprobs=true"},
    {"train/skipped", EVER_ABOVE, 0, "%.0f minibatches of an iteration had a non-finite gradient",
     "lower training.learning_rate and training.max_grad_norm"},
    {"train/dropped_rounds", EVER_ABOVE, 0, "%.0f rounds were too old and dropped",
     "give mf-collect and the learner the same collect.max_lag"},
    {"train/approx_kl", MEAN_ABOVE, .1, "KL is %.2g: the updates are too large",
     "lower training.learning_rate or training.num_epochs, set training.target_kl"},
    {"train/kl_stop", MEAN_ABOVE, .7,
     "%.2g of the updates stop at training.target_kl and skip the rest of their rounds",
     "lower training.learning_rate or training.num_epochs, or raise training.target_kl"},
    {"train/clip_fraction", MEAN_ABOVE, .5, "%.2g of the ratios are clipped",
     "lower training.learning_rate, or adapt training.clip_range to policy.objective (chain_mean: .01 to .05, step: "
     ".2)"},
    {"train/clamped_fraction", MEAN_ABOVE, .05, "%.2g of the log-probabilities are at training.logprob_clamp",
     "raise the clamp, or policy.min_noise_std (a small sigma makes large log-probabilities)"},
    {"train/explained_variance", MEAN_BELOW, 0,
     "the critic explains %.2g of the returns' variance: less than a constant",
     "set training.critic_warmup_steps, raise training.critic_learning_rate, or collect.reward_scale=running"},
    {"train/sigma_place", MEAN_ABOVE, .97, "sigma is at its upper bound (at %.2f of its range)",
     "raise policy.max_noise_std, or lower training.entropy_coef"},
    {"train/sigma_place", MEAN_BELOW, .03, "sigma is at its lower bound (at %.2f of its range)",
     "lower policy.min_noise_std, or raise training.entropy_coef"},
    {"rollout/action_saturation", MEAN_ABOVE, .5, "%.2g of the actions are at the environment's limits",
     "lower policy.max_noise_std or policy.noise_start, set policy.final_limit=1"},
    {"rollout/obs_outside", MEAN_ABOVE, .1, "%.2g of the observations lie far outside of the demonstrations' range",
     "check that env, its obs keys and the normaliser are those of the demonstrations (mf-ckpt show, "
     "clone.normalizer)"},
};

/* Of PPO and its kin, and of SAC. */
static const struct rule losses[] = {
    {"train/value_loss", MEAN_ABOVE, 100, "the value loss is %.3g: returns are far from 1",
     "set collect.reward_scale=running"},
    {"train/value_loss", MEAN_ABOVE, 100, "the critics' loss is %.3g: their targets are far from 1",
     "adapt sac.reward_shift, lower advantage.gamma, or scale the rewards of the environment"},
};

/* The mean of the last LATELY values, or the largest value of the run. NaN: there is no value. */
static double measure(const struct mf_history *h, const double *v, enum how how)
{
    double sum = 0, most = -INFINITY;
    int n = 0;
    for (size_t i = h->n; v && i-- > 0 && (how == EVER_ABOVE || n < LATELY);)
        if (!isnan(v[i]))
            sum += v[i], most = fmax(most, v[i]), n++;
    return n == 0 ? NAN : how == EVER_ABOVE ? most : sum / n;
}

/* Only SAC has a temperature. */
static bool is_sac(const struct mf_history *h)
{
    return mf_history_find(h, "train/alpha");
}

static bool apply(const struct mf_history *h, const struct rule *r, FILE *to)
{
    const double v = measure(h, mf_history_find(h, r->series), r->how);
    if (isnan(v) || (r->how == MEAN_BELOW ? v >= r->limit : v <= r->limit))
        return false;
    fputs("trouble: ", to);
    fprintf(to, r->what, v);
    fprintf(to, "; %s\n", r->advice);
    return true;
}

struct rates { /* the success rate of each iteration, and its number of episodes */
    const struct mf_history *h;
    const double *v, *n; /* n NULL: unknown, each iteration has weight 1 */
};

static double weight(const struct rates *r, size_t i)
{
    return isnan(r->v[i]) ? 0 : r->n && r->n[i] > 0 ? r->n[i] : 1;
}

/* Mean success of the iterations [from, from + LATELY). */
static double window(const struct rates *r, size_t from)
{
    double sum = 0, n = 0;
    for (size_t i = from; i < from + LATELY; i++)
        if (weight(r, i) > 0)
            sum += weight(r, i) * r->v[i], n += weight(r, i);
    return n > 0 ? sum / n : NAN;
}

struct rate { /* good of n episodes, those of `used` iterations */
    double good, n;
    size_t used;
};

/* The first or the last iterations that hold `enough` episodes. */
static struct rate episodes_at(const struct rates *r, bool last, double enough)
{
    struct rate s = {.n = 0};
    for (; s.used < r->h->n && s.n < enough; s.used++) {
        const size_t i = last ? r->h->n - 1 - s.used : s.used;
        if (weight(r, i) > 0)
            s.good += weight(r, i) * r->v[i], s.n += weight(r, i);
    }
    return s;
}

/* The initial policy, for example a clone, acted in the first episodes. Success is below it where the two confidence
 * intervals do not overlap. */
static bool below_start(const struct rates *r, FILE *to)
{
    enum { FEW = 30, MANY = 100 };
    if (r->h->iter[0] > 0 || !r->n)
        return false;
    const struct rate first = episodes_at(r, false, FEW), last = episodes_at(r, true, fmax(first.n, MANY));
    if (first.n < FEW || last.n < FEW || first.used + last.used > r->h->n)
        return false;
    const struct mf_rate was = mf_wilson(llround(first.good), llround(first.n)),
                         is = mf_wilson(llround(last.good), llround(last.n));
    if (is.high >= was.low)
        return false;
    return fprintf(to,
                   "trouble: success is below what the run began with: %.2f of its first %.0f episodes (%.2f to %.2f), "
                   "%.2f of its last %.0f (%.2f to %.2f); begin again from the clone with a lower %s\n",
                   was.rate, first.n, was.low, was.high, is.rate, last.n, is.low, is.high,
                   is_sac(r->h) ? "sac.learning_rate or policy.steer_magnitude, and a higher sac.warmup_decisions"
                                : "training.learning_rate, training.clip_range, training.target_kl or "
                                  "policy.max_noise_std (policy.noise_start), and with "
                                  "training.critic_warmup_steps") > 0;
}

/* Of an environment without successes, returns tell whether it learns. */
static bool returns_rise(const struct rates *r)
{
    const struct rates returns = {r->h, mf_history_find(r->h, "rollout/ep_return"), r->n};
    return returns.v && window(&returns, r->h->n - LATELY) > window(&returns, 0);
}

/* Success fell, or stayed at 0. */
static bool fell(const struct rates *r, FILE *to)
{
    const struct mf_history *h = r->h;
    const double now = window(r, h->n - LATELY);
    double best = 0;
    size_t at = 0;
    for (size_t i = 0; i + LATELY <= h->n; i++)
        if (window(r, i) > best)
            best = window(r, i), at = i;
    if (best - now > .2)
        return fprintf(to,
                       "trouble: success fell from %.2f around iteration %.0f to %.2f; go back to a checkpoint of "
                       "that time, with a lower %s\n",
                       best, h->iter[at + LATELY / 2] + 1, now,
                       is_sac(h) ? "sac.learning_rate" : "training.learning_rate or training.target_kl") > 0;
    if (best < .02 && !returns_rise(r))
        return fprintf(to, "trouble: success stays at 0, and the initial policy must succeed sometimes; check "
                           "policy.checkpoint with mf-eval, clone from more demonstrations\n") > 0;
    return false;
}

static bool success(const struct mf_history *h, FILE *to)
{
    const double *ended = mf_history_find(h, "rollout/episodes"),
                 *counted = mf_history_find(h, "rollout/episodes_counted");
    const struct rates r = {h, mf_history_find(h, "rollout/success_once"), counted ? counted : ended};
    bool any = false;
    if (r.v && h->n && below_start(&r, to))
        return true;
    if (h->n < 2 * LATELY || (!r.v && !ended)) /* cloning has no episodes */
        return false;
    if (r.v)
        return fell(&r, to);
    for (size_t i = 0; i < h->n; i++)
        any |= ended[i] > 0;
    return !any && fprintf(to,
                           "trouble: no episode has ended in %zu iterations; raise training.num_steps_per_rollout or "
                           "lower env.max_steps\n",
                           h->n) > 0;
}

int mf_diagnose(const struct mf_history *h, FILE *to)
{
    int n = success(h, to) + apply(h, &losses[is_sac(h)], to);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        n += apply(h, &rules[i], to);
    return n;
}
