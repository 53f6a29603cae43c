/* The learner on rounds that the sampler made: ratios of exactly 1, masks, slices, threads, folding, warm-up. */
#include "ppo_lab.h"
#include "rl/minibatch.h"

static void ratio_is_one(void)
{
    static const struct {
        enum mf_noise_method method;
        enum mf_denoise denoise;
        enum mf_objective objective;
        bool learned;
    } mode[] = {{MF_FLOW_NOISE, MF_JOINT, MF_CHAIN_MEAN, false}, {MF_FLOW_NOISE, MF_JOINT, MF_CHAIN_SUM, true},
                {MF_FLOW_SDE, MF_JOINT, MF_CHAIN_MEAN, false},   {MF_FLOW_SDE, MF_SINGLE, MF_STEP, false},
                {MF_FLOW_SDE, MF_JOINT, MF_STEP_MEAN, false},    {MF_FLOW_CPS, MF_SINGLE, MF_STEP, false},
                {MF_FLOW_CPS, MF_JOINT, MF_CHAIN_MEAN, false},   {MF_FLOW_NOISE, MF_SINGLE, MF_STEP, true}};
    for (size_t i = 0; i < sizeof mode / sizeof *mode; i++)
        for (int level = MF_TOKEN; level <= MF_CHUNK; level++) {
            if (few_cases() && level != MF_TOKEN + (int)i % 3)
                continue;
            struct mf_policy_spec spec = spec_of(mode[i].method, mode[i].denoise, mode[i].objective, mode[i].learned);
            struct mf_ppo_opts frozen = defaults, moving = defaults;
            frozen.learning_rate = frozen.critic_learning_rate = frozen.noise_learning_rate = 0;
            frozen.level = moving.level = level;
            moving.num_epochs = 1;
            struct run a = update_noisy(&spec, &frozen, 2, 1, false, 0),
                       b = update_noisy(&spec, &moving, 2, 1, false, 0);
            struct mf_policy fresh;
            if (mf_policy_init(&fresh, &spec, &err))
                abort();
            mf_policy_fresh(&fresh, 3);
            mf_policy_set_noise(&fresh, 0.1, 0.2);
            ok(a.rc == 0 && a.stats.ratio_max == 1 && a.stats.kl_k3 == 0 && a.stats.logratio_gap == 0 &&
                   a.stats.clip_fraction == 0 && same_weights(&a.policy, &fresh),
               "mode %zu level %d: lr 0 keeps every ratio at exactly 1 and every weight", i, level);
            ok(b.rc == 0 && b.stats.logratio_gap == 0 && b.stats.ratio_max > 1 && !same_weights(&b.policy, &fresh),
               "mode %zu level %d: the first minibatch's ratio is exactly 1, then it moves", i, level);
            mf_policy_release(&a.policy);
            mf_policy_release(&b.policy);
            mf_policy_release(&fresh);
        }
}

static void same_bits(void)
{
    struct mf_policy_spec spec = spec_of(MF_FLOW_NOISE, MF_JOINT, MF_CHAIN_MEAN, true);
    struct run one = update_noisy(&spec, &defaults, 1, 1, false, 0);
    static const struct {
        int threads, slices;
    } as[] = {{2, 1}, {4, 1}, {1, 3}, {4, 3}};
    for (size_t i = 0; i < sizeof as / sizeof *as; i++) {
        struct run r = update_noisy(&spec, &defaults, as[i].threads, as[i].slices, false, 0);
        ok(same_weights(&one.policy, &r.policy), "%d threads and %d slices give the same bits", as[i].threads,
           as[i].slices);
        mf_policy_release(&r.policy);
    }
    struct run zero = update_noisy(&spec, &defaults, 2, 1, true, 0),
               nan = update_noisy(&spec, &defaults, 2, 1, true, NAN),
               huge = update_noisy(&spec, &defaults, 2, 1, true, 1e30f);
    ok(zero.rc == 0 && nan.rc == 0 && same_weights(&zero.policy, &nan.policy) &&
           same_weights(&zero.policy, &huge.policy) && !memcmp(&zero.stats, &nan.stats, sizeof zero.stats),
       "masked NaN and 1e30 change no bit of weights and metrics");
    ok(!same_weights(&zero.policy, &one.policy), "the mask does change the update");
    mf_policy_release(&one.policy);
    mf_policy_release(&zero.policy);
    mf_policy_release(&nan.policy);
    mf_policy_release(&huge.policy);
}

static void folding(void)
{
    struct mf_policy_spec spec = spec_of(MF_FLOW_NOISE, MF_JOINT, MF_CHAIN_MEAN, false);
    struct mf_ppo_opts plain = defaults, tenfold = defaults;
    plain.batch_size = T * N;
    tenfold.repeat_samples = 10;
    tenfold.batch_size = 10 * T * N;
    struct run a = update_noisy(&spec, &plain, 2, 1, false, 0), b = update_noisy(&spec, &tenfold, 2, 1, false, 0);
    ok(a.stats.minibatches == b.stats.minibatches && furthest(&a.policy, &b.policy) < 2e-6,
       "a batch of ten copies of everything is the batch: %g", furthest(&a.policy, &b.policy));
    mf_policy_release(&a.policy);
    mf_policy_release(&b.policy);
}

static void stopping(void)
{
    struct mf_policy_spec spec = spec_of(MF_FLOW_NOISE, MF_JOINT, MF_CHAIN_SUM, false);
    struct mf_ppo_opts o = defaults;
    o.target_kl = 1e-6;
    struct run r = update_noisy(&spec, &o, 2, 1, false, 0);
    ok(r.stats.kl_stop && r.stats.minibatches < 4, "above target_kl the rest of the round is skipped");
    mf_policy_release(&r.policy);

    o = defaults;
    o.critic_warmup_steps = 5;
    r = update_noisy(&spec, &o, 2, 1, false, 0);
    ok(r.stats.minibatches == 12 && fabs(r.stats.ratio_mean - 1) < .1 && r.stats.value_loss > 0,
       "a mean ratio of %.3f is not over the 5 of 12 minibatches that have none", r.stats.ratio_mean);
    mf_policy_release(&r.policy);

    o.critic_warmup_steps = 1000;
    r = update_noisy(&spec, &o, 2, 1, false, 0);
    ok(isnan(r.stats.ratio_mean) && isnan(r.stats.ratio_max) && isnan(r.stats.kl_k3) && r.stats.value_loss > 0 &&
           r.stats.critic_grad_norm > 0,
       "a round of warm-up has no ratio and no KL");
    struct mf_policy fresh;
    if (mf_policy_init(&fresh, &spec, &err))
        abort();
    mf_policy_fresh(&fresh, 3);
    mf_policy_set_noise(&fresh, 0.1, 0.2);
    bool policy = true, critic = true;
    for (int i = 0; i < fresh.params.n; i++) {
        const struct mf_param *p = &fresh.params.p[i];
        bool same = !memcmp(fresh.params.value + p->at, r.policy.params.value + p->at,
                            (size_t)(p->rows * p->cols) * sizeof(float));
        if (p->group == MF_GROUP_CRITIC)
            critic &= !same;
        else
            policy &= same;
    }
    ok(r.rc == 0 && policy && critic, "the critic's warm-up moves the critic alone");
    mf_policy_release(&r.policy);
    mf_policy_release(&fresh);
}

/* Returns of .7 as an estimator gives them: advantage and value added up, each sum rounded. */
static void equal_returns(struct mf_rows *r, struct mf_engine *e, struct mf_policy *p, const struct mf_ppo_opts *o)
{
    (void)e, (void)p, (void)o;
    for (size_t i = 0; i < r->n; i++) {
        r->values[i] = (float)i / 7 - 3;
        const volatile float advantage = .7f - r->values[i];
        r->returns[i] = advantage + r->values[i];
    }
}

static void half_explained(struct mf_rows *r, struct mf_engine *e, struct mf_policy *p, const struct mf_ppo_opts *o)
{
    (void)e, (void)p, (void)o;
    for (size_t i = 0; i < r->n; i++) {
        r->returns[i] = 100 + (float)(i % 2 ? 1 : -1) / 1024;
        r->values[i] = 50 + (float)(i % 2 ? 1 : -1) / 2048;
    }
}

static void explained(void)
{
    struct mf_policy_spec spec = spec_of(MF_FLOW_NOISE, MF_JOINT, MF_CHAIN_MEAN, false);
    struct run r = update_changed(&spec, &defaults, 2, 1, false, 0, equal_returns);
    ok(r.rc == 0 && isnan(r.stats.explained_variance),
       "of returns that differ by rounding alone nothing is explained: %g", r.stats.explained_variance);
    mf_policy_release(&r.policy);
    r = update_changed(&spec, &defaults, 2, 1, false, 0, half_explained);
    near(r.stats.explained_variance, .75, 1e-9, "of small differences far from 0, three quarters");
    mf_policy_release(&r.policy);
}

/* More memory than any machine has, for data and options. */
static void too_large(void)
{
    struct mf_ppo_opts o = defaults;
    const struct mf_rows r = {.n = SIZE_MAX / 8, .n_live = 10, .C = 1};
    struct mf_minibatches b = {.deck = NULL};
    ok(mf_minibatches_init(&b, &r, &o, 1, 1, &err) == MF_ENOMEM && strstr(err.text, "a minibatch"), "%s", err.text);
    mf_minibatches_release(&b);
    o.repeat_samples = INT64_MAX / 2;
    ok(mf_minibatches_init(&b, &r, &o, 1, 1, &err) == MF_EUSAGE && strstr(err.text, "training.repeat_samples"), "%s",
       err.text);
}

int main(void)
{
    too_large();
    ratio_is_one();
    explained();
    same_bits();
    folding();
    stopping();
    return done();
}
