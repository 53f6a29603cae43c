/* Two minibatches under way give the numbers of one after another: weights, moments, counts and metrics. */
#include "plain_device.h"

#include "ppo_lab.h"

static int under_way, most, unheld; /* unheld: feeds by index of rows that the device copies in every run */

static int counted_start(struct mf_program *p, const struct mf_job *j, struct mf_err *e)
{
    most = ++under_way > most ? under_way : most;
    for (int i = 0; j->batch->index && i < j->batch->n_feeds; i++)
        unheld += !j->batch->feed[i].direct && plain_source(p->dev, &j->batch->feed[i]) == j->batch->feed[i].base;
    return plain_start(p, j, e);
}

static int counted_finish(struct mf_program *p, struct mf_err *e)
{
    under_way--;
    return plain_finish(p, e);
}

struct result {
    struct mf_policy policy;
    struct mf_ppo_stats stats[2];
    float *moments;
    int64_t steps[MF_DEVICE_GROUPS], minibatches;
    int rc[2], most;
};

/* Two updates by one learner, so many minibatches ahead. */
static struct result update_twice(int ahead, const struct mf_ppo_opts *o, change_fn *change)
{
    struct result out = {.most = 0};
    struct mf_engine *e;
    struct mf_ppo *q;
    struct mf_policy_spec spec = spec_of(MF_FLOW_NOISE, MF_JOINT, MF_CHAIN_SUM, true);
    const double noise[] = {.2};
    plain_device.ahead = ahead;
    most = 0;
    if (mf_engine_open(&e, "cpu", 1, MF_FP32, &err) || mf_policy_init(&out.policy, &spec, &err))
        abort();
    mf_policy_fresh(&out.policy, 3);
    mf_policy_set_noise(&out.policy, 0.1, 0.2);
    struct round r = sample_round(&out.policy, e, 1, true, NAN);
    if (mf_ppo_new(&q, e, &out.policy, o, &err))
        abort();
    const struct mf_optimizer *opt = mf_ppo_optimizer(q);
    for (int i = 0; i < 2; i++) {
        struct mf_rows rows = {0};
        if (mf_rows_gather(&rows, &out.policy, mf_ppo_needs(q), noise, r.slice, 1, &err))
            abort();
        if (change)
            change(&rows, e, &out.policy, o);
        out.rc[i] = mf_ppo_update(q, &rows, &out.stats[i], &err);
        mf_rows_release(&rows);
    }
    out.most = most;
    out.minibatches = opt->minibatches;
    memcpy(out.steps, opt->adam.step, sizeof out.steps);
    out.moments = malloc(opt->adam.floats * sizeof(float));
    memcpy(out.moments, opt->adam.v, opt->adam.floats * sizeof(float));
    mf_ppo_free(q);
    mf_frame_free(r.slice[0]);
    mf_engine_close(e);
    return out;
}

static void release(struct result *r)
{
    mf_policy_release(&r->policy);
    free(r->moments);
}

/* Returns that of one after another. */
static struct result same(const struct mf_ppo_opts *o, change_fn *change, const char *what)
{
    struct result one = update_twice(1, o, change), two = update_twice(2, o, change);
    ok(one.most == 1 && two.most == 2, "%s: two minibatches are under way at once", what);
    ok(!memcmp(one.rc, two.rc, sizeof one.rc) && !memcmp(one.stats, two.stats, sizeof one.stats),
       "%s: the same metrics", what);
    ok(same_weights(&one.policy, &two.policy) &&
           !memcmp(one.moments, two.moments, one.policy.params.size * sizeof(float)),
       "%s: the same weights and moments", what);
    ok(!memcmp(one.steps, two.steps, sizeof one.steps) && one.minibatches == two.minibatches,
       "%s: the same counts, %lld minibatches", what, (long long)one.minibatches);
    release(&two);
    return one;
}

/* In one minibatch of every epoch. */
static void one_return_is_nan(struct mf_rows *r, struct mf_engine *e, struct mf_policy *p, const struct mf_ppo_opts *o)
{
    (void)e, (void)p, (void)o;
    r->returns[r->live[7]] = NAN;
}

int main(void)
{
    struct mf_ppo_opts o = defaults;
    plain_device.start = counted_start;
    plain_device.finish = counted_finish;
    o.batch_size = 6;
    struct result r = same(&o, NULL, "a round");
    release(&r);

    r = same(&o, one_return_is_nan, "a gradient that is not finite");
    ok(r.stats[0].skipped == 3 && r.stats[0].minibatches > 6, "it is skipped once an epoch");
    release(&r);

    o.critic_warmup_steps = 4;
    r = same(&o, NULL, "the end of the critic's warm-up");
    ok(r.steps[MF_GROUP_CRITIC] == r.steps[MF_GROUP_POLICY] + 4, "the policy learns 4 minibatches less");
    release(&r);

    o = defaults;
    o.batch_size = 6;
    o.target_kl = .012;
    o.recompute_logprobs = true; /* else the second update has a veto at once */
    r = same(&o, NULL, "a veto");
    ok(r.stats[0].kl_stop && r.stats[0].minibatches > 1 && r.stats[0].minibatches % 7 != 6,
       "in the middle of an epoch, after %lld minibatches", (long long)r.stats[0].minibatches);
    ok(r.stats[1].minibatches > 0 && r.minibatches == r.stats[0].minibatches + r.stats[1].minibatches,
       "the next update begins without it");
    ok(r.stats[1].logratio_gap == 0, "and from the log-probabilities that it has recomputed");
    release(&r);
    ok(unheld == 0, "all rows that are read by index are held");
    return done();
}
