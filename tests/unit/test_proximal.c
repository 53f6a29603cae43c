/* Rounds of an older policy: the decoupled objective. Its losses and gradients in PyTorch: tests/reference/ops.py,
 * "ppo_decoupled". */
#include "rl/proximal.h"

#include "ppo_lab.h"

/* How much less the policy that sampled thought of an element than the one at hand. */
static float age(size_t row, size_t e)
{
    return 0.3f * (float)sin((double)(7 * row + 3 * e));
}

static void no_older(struct mf_rows *r, struct mf_engine *e, struct mf_policy *p, const struct mf_ppo_opts *o)
{
    (void)e, (void)p, (void)o;
    r->lagged = true;
}

static void older(struct mf_rows *r, struct mf_engine *e, struct mf_policy *p, const struct mf_ppo_opts *o)
{
    no_older(r, e, p, o);
    for (size_t i = 0; i < r->n_live; i++)
        for (size_t k = 0; k < (size_t)r->E; k++)
            r->old[r->live[i] * (size_t)r->E + k] -= age(r->live[i], k);
}

static void proximal_is_ppo_without_lag(void)
{
    static const enum mf_objective objective[] = {MF_CHAIN_MEAN, MF_CHAIN_SUM, MF_STEP, MF_STEP_MEAN};
    for (int i = 0; i < 4; i++)
        for (int level = MF_TOKEN; level <= MF_CHUNK; level++) {
            struct mf_policy_spec spec =
                spec_of(MF_FLOW_SDE, objective[i] == MF_STEP ? MF_SINGLE : MF_JOINT, objective[i], false);
            struct mf_ppo_opts plain = defaults, decoupled = defaults;
            plain.level = decoupled.level = level;
            decoupled.proximal = 0.7;
            struct run a = update_noisy(&spec, &plain, 2, 1, true, NAN),
                       b = update_changed(&spec, &decoupled, 2, 1, true, NAN, no_older);
            bool one = b.stats.lagged && b.stats.correction_max == 1 && isnan(a.stats.correction_max);
            b.stats.correction_max = a.stats.correction_max;
            b.stats.lagged = a.stats.lagged;
            ok(b.rc == 0 && one && same_weights(&a.policy, &b.policy) && !memcmp(&a.stats, &b.stats, sizeof a.stats),
               "objective %d, level %d: where nothing is older, decoupled is PPO bit for bit", i, level);
            mf_policy_release(&a.policy);
            mf_policy_release(&b.policy);
        }
}

/* log b = log now - age, so log p = log now - (1-alpha) age and p/b = exp(alpha age), of a ratio's elements. */
static void check_proximal(struct mf_rows *r, struct mf_engine *e, struct mf_policy *p, const struct mf_ppo_opts *o)
{
    static const double alpha[] = {0, 0.25, 1};
    const size_t E = (size_t)r->E;
    float *now = mf_xcalloc(r->n * E, sizeof *now);
    memcpy(now, r->old, r->n * E * sizeof *now);
    for (size_t W = E; W >= 1; W /= 2)
        for (int i = 0; i < 3; i++) {
            struct mf_ppo_opts with = *o;
            struct mf_ppo_stats st = {.correction_max = NAN};
            double worst = 0, most = 0, gap = 0;
            with.proximal = alpha[i];
            memcpy(r->old, now, r->n * E * sizeof *now);
            older(r, e, p, o);
            if (mf_proximal(e, p, r, &with, (int)W, &st, &err))
                abort();
            for (size_t k = 0; k < r->n_live * W; k++) {
                size_t row = r->live[k / W], first = k % W * (E / W);
                double sum = 0;
                for (size_t q = first; q < first + E / W; q++) {
                    double a = (double)age(row, q), far = (double)r->old[row * E + q] - (double)now[row * E + q];
                    sum += a;
                    worst = worse(worst, fabs(far + (1 - alpha[i]) * a));
                }
                worst = worse(worst, fabs((double)r->correction[row * W + k % W] - exp(alpha[i] * sum)));
                most = fmax(most, exp(alpha[i] * sum));
                gap = worse(gap, fabs(sum));
            }
            ok(worst < 2e-6 && fabs(st.correction_max - most) < 2e-6 && fabs(st.logratio_gap - gap) < 2e-6,
               "alpha %g, %zu ratios of %zu: the closed form (off by %.2g)", alpha[i], W, E, worst);
            free(r->correction);
            r->correction = NULL;
        }
    free(now);
}

/* max(-A r, -A clip(r)) is homogeneous in A: p/b in front of it is an advantage of A p/b. */
static void weighed_by_hand(struct mf_rows *r, struct mf_engine *e, struct mf_policy *p, const struct mf_ppo_opts *o)
{
    (void)e, (void)p, (void)o;
    for (size_t i = 0; i < r->n_live; i++) {
        size_t row = r->live[i];
        r->old[row] -= 0.5f * age(row, 0);
        r->advantage[row] *= (float)exp(0.5 * (double)age(row, 0));
    }
}

static void decoupled(void)
{
    struct mf_policy_spec step = spec_of(MF_FLOW_SDE, MF_SINGLE, MF_STEP, false),
                          chain = spec_of(MF_FLOW_NOISE, MF_JOINT, MF_CHAIN_MEAN, true);
    struct mf_ppo_opts o = defaults;
    struct run a = update_changed(&step, &o, 2, 1, false, 0, check_proximal), b, c;
    mf_policy_release(&a.policy);
    o.normalize_advantages = false;
    a = update_changed(&chain, &o, 2, 1, false, 0, weighed_by_hand);
    c = update_changed(&chain, &o, 2, 1, false, 0, older);
    o.proximal = 0.5;
    b = update_changed(&chain, &o, 2, 1, false, 0, older);
    ok(furthest(&a.policy, &b.policy) < 1e-6 && fabs(a.stats.policy_loss - b.stats.policy_loss) < 1e-6,
       "half-way between the policies: PPO near there, with advantages times p/b (%g)", furthest(&a.policy, &b.policy));
    ok(furthest(&c.policy, &b.policy) > 1e-4, "and something else than PPO near the older one");
    ok(fabs(b.stats.ratio_mean - 1) < 0.05 + fabs(a.stats.ratio_mean - 1) && b.stats.correction_max > 1.1,
       "the ratio is the new policy's to the proximal one");
    mf_policy_release(&a.policy);
    mf_policy_release(&b.policy);
    mf_policy_release(&c.policy);
    o.recompute_logprobs = true;
    a = update_noisy(&chain, &o, 2, 1, false, 0);
    ok(a.rc && strstr(err.text, "set one of the two"), "recomputing and decoupling exclude each other");
    mf_policy_release(&a.policy);
}

int main(void)
{
    proximal_is_ppo_without_lag();
    decoupled();
    return done();
}
