/* Reflow consistency beside PPO: masks, the rows it reads, its loss, and what it must not change. */
#include "flow/reflow.h"
#include "ppo_lab.h"
#include "rl/minibatch.h"

static const enum mf_rfc_mask masks[] = {MF_RFC_SUCCESS_ONLY, MF_RFC_SUCCESS_CHUNK, MF_RFC_ADVANTAGE_POSITIVE,
                                         MF_RFC_ADVANTAGE_TOPK};

static struct mf_ppo_opts with(enum mf_rfc_mask mask)
{
    struct mf_ppo_opts o = defaults;
    o.rfc_coef = .5;
    o.rfc_mask = mask;
    o.rfc_topk = .5;
    return o;
}

/* ---- masks ---- */

/* The masks that the published code (RLinf's fork) takes of these 8 decisions; its success_only is success_chunk. */
static void as_published(void)
{
    enum { M = 8 };
    uint32_t row[M], count[M];
    float advantage[M] = {.3f, -.2f, .3f, 0, 1.5f, -.7f, .3f, .1f}, weight[M];
    uint8_t success[M] = {0, 3, 0, 0, 3, 0, 3, 1};
    struct mf_rfc_rank rank[M];
    const struct mf_minibatch b = {.n = M, .row = row, .count = count, .advantage = advantage, .rfc.rank = rank};
    const struct mf_rows r = {.n = M, .success = success};
    static const struct {
        enum mf_rfc_mask mask;
        double topk;
        const char *want;
    } cases[] = {{MF_RFC_SUCCESS_CHUNK, .5, "01001010"},      {MF_RFC_SUCCESS_ONLY, .5, "01001011"},
                 {MF_RFC_ADVANTAGE_POSITIVE, .5, "10101011"}, {MF_RFC_ADVANTAGE_TOPK, .25, "10101010"},
                 {MF_RFC_ADVANTAGE_TOPK, .5, "10101010"},     {MF_RFC_ADVANTAGE_TOPK, .6, "10101010"},
                 {MF_RFC_ADVANTAGE_TOPK, .1, "00001000"},     {MF_RFC_ADVANTAGE_TOPK, .63, "10101011"},
                 {MF_RFC_ADVANTAGE_TOPK, 1, "11111111"}};
    for (uint32_t i = 0; i < M; i++)
        row[i] = i, count[i] = 1;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct mf_ppo_opts o = with(cases[c].mask);
        char got[M + 1] = "";
        o.rfc_topk = cases[c].topk;
        double sum = mf_rfc_choose(&b, &r, &o, weight), want = 0;
        for (int i = 0; i < M; i++)
            got[i] = weight[i] > 0 ? '1' : '0', want += cases[c].want[i] == '1';
        ok(!strcmp(got, cases[c].want) && sum == want, "mask %d, topk %g: %s", cases[c].mask, cases[c].topk, got);
    }
    struct mf_ppo_opts o = with(MF_RFC_ADVANTAGE_TOPK);
    count[4] = 7; /* of 14 decisions, 7 copies of the largest */
    ok(mf_rfc_choose(&b, &r, &o, weight) == 7 && weight[4] == 7 && weight[0] == 0, "copies of a row count each");
    count[4] = 6; /* of 13, 6: exactly them */
    ok(mf_rfc_choose(&b, &r, &o, weight) == 6 && weight[0] == 0, "and fill the fraction");
    count[4] = 5; /* of 12, 6 */
    ok(mf_rfc_choose(&b, &r, &o, weight) == 8 && weight[0] == 1, "or leave room for the next ones, with their equals");
}

/* ---- rows ---- */

static uint8_t *flags(struct round *r, const char *name)
{
    return (uint8_t *)(uintptr_t)mf_frame_find(r->slice[0], name)->data;
}

/* Environment 0 succeeds at step 1 by termination and at 3 by truncation, and goes on; 1 fails at 2; 2 never ends. */
static void set_episodes(struct round *r)
{
    uint8_t *terminated = flags(r, "terminated"), *truncated = flags(r, "truncated"), *success = flags(r, "success");
    memset(terminated, 0, T * N);
    memset(success, 0, T * N);
    add(r->slice[0], "final_values", MF_F32, 2, (size_t[]){T, N});
    terminated[1 * N] = success[1 * N] = 1;
    truncated[3 * N] = success[3 * N] = 1;
    terminated[2 * N + 1] = 1;
    flags(r, "valid")[4 * N] = 0;
}

static void rows(enum mf_noise_method method, enum mf_denoise denoise, enum mf_objective objective)
{
    const struct mf_policy_spec spec = spec_of(method, denoise, objective, false);
    struct mf_engine *e;
    struct mf_policy p;
    struct mf_rows got = {0}, plain = {0};
    if (mf_engine_open(&e, device_under_test(), 2, MF_FP32, &err) || mf_policy_init(&p, &spec, &err))
        abort();
    mf_policy_fresh(&p, 3);
    mf_policy_set_noise(&p, .1, .2);
    struct round r = sample_round(&p, e, 1, false, 0);
    set_episodes(&r);
    if (mf_rows_gather(&got, &p, MF_ROWS_ENDS | MF_ROWS_SUCCESS, (double[]){.2}, r.slice, 1, &err) ||
        mf_rows_gather(&plain, &p, 0, (double[]){.2}, r.slice, 1, &err))
        abort();
    const uint8_t want[3][T] = {{1, 3, 1, 1, 0, 0}, {0}, {0}};
    ok(!memcmp(got.success, want, sizeof want) && !plain.success,
       "a decision succeeds if its episode ends so; a cut episode does not");
    const float *chains = mf_frame_find(r.slice[0], "chains")->data;
    bool same = true;
    for (size_t env = 0; env < N; env++)
        for (size_t t = 0; t < T; t++) {
            const float *chain = chains + (t * N + env) * (K + 1) * D;
            same &= t == 4 && env == 0 ? true
                                       : !memcmp(mf_rows_first(&got, env * T + t), chain, D * sizeof *chain) &&
                                             !memcmp(mf_rows_last(&got, env * T + t), chain + K * D, D * sizeof *chain);
        }
    ok(same && !plain.ends && (denoise == MF_SINGLE) == (got.ends != NULL), "both ends of every chain are there");
    ok(mf_rows_memory(&spec, MF_ROWS_ENDS | MF_ROWS_SUCCESS, 100, 1) >= mf_rows_memory(&spec, 0, 100, 1) + 100,
       "and their memory is counted");
    mf_rows_release(&got);
    mf_rows_release(&plain);
    for (int k = 0; k < r.n; k++)
        mf_frame_free(r.slice[k]);
    mf_policy_release(&p);
    mf_engine_close(e);
}

/* ---- the loss ---- */

static double expected; /* of the next update, which has one minibatch of all rows and takes no step */

/* The mean loss of the rows with positive advantage, each at its own time. */
static void compute(struct mf_rows *r, struct mf_engine *e, struct mf_policy *p, const struct mf_ppo_opts *o)
{
    enum { M = T * N };
    float x[M * D], target[M * D], time[M], weight[M], loss[M];
    struct mf_graph *g = mf_graph_new(&p->params);
    struct mf_plan *plan;
    struct mf_reflow q;
    struct mf_val obs = mf_input(g, 1, O);
    struct mf_share encoded = mf_net_features(g, &p->spec.net, obs, false);
    double sum = 0, n = 0;
    if (p->spec.net.net->encode)
        p->spec.net.net->encode(g, &p->spec.net, &encoded);
    mf_reflow_build(g, &p->spec, &encoded, &q);
    if (mf_plan_new(&plan, e, g, &(struct mf_plan_opts){0}, &err))
        abort();
    mf_reflow_set(plan, &q, p);
    for (uint32_t i = 0; i < M; i++) {
        struct mf_rng rng = mf_rng_at((uint64_t)o->seed, MF_RNG_REFLOW, i, (uint32_t)p->iter, 0);
        const float *ends = r->single ? r->ends + 2 * D * i : r->chain + (K + 1) * D * i;
        mf_reflow_point(&p->spec, ends, ends + D * (r->single ? 1 : K), mf_rng_uniform(&rng), x + i * D, target + i * D,
                        &time[i]);
        weight[i] = r->advantage[i] > 0;
    }
    const struct mf_feed feed[] = {{obs, r->obs, O, false},
                                   {q.x, x, D, true},
                                   {q.target, target, D, true},
                                   {q.time, time, 1, true},
                                   {q.weight, weight, 1, true}};
    const struct mf_fetch fetch = {q.loss, loss, 1};
    if (mf_plan_run(plan, &(struct mf_batch){.n = M, .feed = feed, .n_feeds = 5, .fetch = &fetch, .n_fetches = 1},
                    &err))
        abort();
    for (int i = 0; i < M; i++)
        sum += (double)loss[i], n += (double)weight[i];
    expected = sum / n;
    mf_plan_free(plan);
    mf_graph_free(g);
}

static void losses(void)
{
    static const struct {
        enum mf_noise_method method;
        enum mf_denoise denoise;
        enum mf_objective objective;
    } mode[] = {{MF_FLOW_NOISE, MF_JOINT, MF_CHAIN_MEAN}, {MF_FLOW_SDE, MF_SINGLE, MF_STEP}};
    for (int i = 0; i < 2; i++) {
        struct mf_policy_spec spec = spec_of(mode[i].method, mode[i].denoise, mode[i].objective, false);
        struct mf_ppo_opts o = with(MF_RFC_ADVANTAGE_POSITIVE), still, off;
        spec.convention = i ? MF_NOISE1 : MF_NOISE0;
        still = o;
        still.learning_rate = still.critic_learning_rate = 0;
        still.batch_size = T * N;
        still.num_epochs = 1;
        still.normalize_advantages = false;
        off = o;
        off.rfc_coef = 0;
        struct run a = update_changed(&spec, &still, 2, 1, false, 0, compute),
                   b = update_noisy(&spec, &o, 2, 1, false, 0), c = update_noisy(&spec, &off, 2, 1, false, 0),
                   d = update_noisy(&spec, &defaults, 2, 1, false, 0);
        near(a.stats.rfc_loss, expected, 1e-5, "the loss is the mean over the chosen rows");
        ok(a.stats.reflow_mask_ratio > .3 && a.stats.reflow_mask_ratio < .7 && a.stats.logratio_gap == 0 &&
               a.stats.ratio_max == 1,
           "mode %d: %.2f of the rows are chosen, ratios are exactly 1", i, a.stats.reflow_mask_ratio);
        ok(b.rc == 0 && b.stats.logratio_gap == 0 && !same_weights(&b.policy, &c.policy), "mode %d: it trains", i);
        ok(same_weights(&c.policy, &d.policy) && isnan(c.stats.rfc_loss) && isnan(c.stats.reflow_mask_ratio),
           "mode %d: coefficient 0 changes no bit", i);
        mf_policy_release(&a.policy);
        mf_policy_release(&b.policy);
        mf_policy_release(&c.policy);
        mf_policy_release(&d.policy);
    }
}

static void same_bits(enum mf_rfc_mask mask)
{
    const struct mf_policy_spec spec = spec_of(MF_FLOW_SDE, MF_SINGLE, MF_STEP, false);
    const struct mf_ppo_opts o = with(mask);
    struct run one = update_noisy(&spec, &o, 1, 1, true, 0), many = update_noisy(&spec, &o, 4, 3, true, NAN);
    ok(one.rc == 0 && many.rc == 0 && same_weights(&one.policy, &many.policy) &&
           one.stats.rfc_loss == many.stats.rfc_loss,
       "mask %d: the same bits from 4 threads, 3 slices and masked NaN; loss %.3f", mask, one.stats.rfc_loss);
    mf_policy_release(&one.policy);
    mf_policy_release(&many.policy);
}

static void folding(void)
{
    const struct mf_policy_spec spec = spec_of(MF_FLOW_NOISE, MF_JOINT, MF_CHAIN_MEAN, false);
    struct mf_ppo_opts plain = with(MF_RFC_ADVANTAGE_TOPK), tenfold = plain;
    plain.batch_size = T * N;
    tenfold.repeat_samples = 10;
    tenfold.batch_size = 10 * T * N;
    struct run a = update_noisy(&spec, &plain, 2, 1, false, 0), b = update_noisy(&spec, &tenfold, 2, 1, false, 0);
    ok(furthest(&a.policy, &b.policy) < 2e-6 && fabs(a.stats.rfc_loss - b.stats.rfc_loss) < 1e-6,
       "ten copies of everything have the loss of one: %g", furthest(&a.policy, &b.policy));
    mf_policy_release(&a.policy);
    mf_policy_release(&b.policy);
}

/* It pulls the velocity to the straight line: the loss falls, and policies with a step size have it, too. */
static void straightens(void)
{
    struct mf_policy_spec spec = spec_of(MF_FLOW_NOISE, MF_JOINT, MF_CHAIN_MEAN, false);
    struct mf_ppo_opts o = with(MF_RFC_ADVANTAGE_TOPK), once;
    mf_net_find(&spec.net.net, "shortcut_mlp", &err);
    spec.net.n_cond = 2, spec.net.cond[0] = 10, spec.net.cond[1] = 8;
    o.rfc_topk = 1;
    o.rfc_coef = 10;
    once = o;
    once.num_epochs = 1;
    o.num_epochs = 40;
    struct run a = update_noisy(&spec, &once, 2, 1, false, 0), b = update_noisy(&spec, &o, 2, 1, false, 0);
    ok(a.rc == 0 && b.stats.rfc_loss < .8 * a.stats.rfc_loss, "the loss falls: %.3f, on average of 40 epochs %.3f",
       a.stats.rfc_loss, b.stats.rfc_loss);
    mf_policy_release(&a.policy);
    mf_policy_release(&b.policy);
}

int main(void)
{
    as_published();
    rows(MF_FLOW_NOISE, MF_JOINT, MF_CHAIN_MEAN);
    rows(MF_FLOW_SDE, MF_SINGLE, MF_STEP);
    losses();
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++)
        same_bits(masks[i]);
    folding();
    straightens();
    return done();
}
