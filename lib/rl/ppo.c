#include "rl/ppo.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/stop.h"
#include "flow/ops.h"
#include "flow/score.h"
#include "op/ops.h"
#include "rl/losses.h"
#include "rl/minibatch.h"
#include "rl/proximal.h"

enum { ROUNDINGS = 32 }; /* of a float return: one for each reward in its sum; they partly cancel */

/* A graph with the critic's loss, and with others. */
struct loss {
    struct mf_graph *graph;
    struct mf_plan *plan;
    struct mf_val obs, value, returns, value_old, value_weight, knobs;
};

struct mf_ppo {
    struct mf_engine *engine;
    struct mf_policy *policy;
    struct mf_ppo_opts opts;
    struct mf_optimizer optimizer;

    struct loss full, warmup; /* warmup: the critic alone */
    struct mf_score score;    /* of the full loss, as the values below */
    struct mf_val old, advantage, weight, entropy_weight, new_level, old_level, knobs;
    struct mf_val kl, kl_weight; /* MF_NONE without target_kl */
    int width;                   /* ratios a row */
};

/* ---- graphs ---- */

static void level_of(struct mf_ppo *q, struct mf_graph *g)
{
    const struct mf_policy_spec *s = &q->policy->spec;
    bool chain = s->objective == MF_CHAIN_MEAN || s->objective == MF_CHAIN_SUM;
    int A = s->action_dim, C = s->n_action_steps;
    q->new_level = q->score.logprobs;
    q->old_level = q->old;
    q->width = mf_logprob_width(s);
    if (chain || q->opts.level == MF_TOKEN)
        return;
    enum mf_reduce how = q->opts.level == MF_ACTION ? MF_REDUCE_ACTION : MF_REDUCE_CHUNK;
    q->new_level = mf_reduce(g, q->score.logprobs, MF_NONE, how, A, C, 0, 1);
    q->old_level = mf_reduce(g, q->old, MF_NONE, how, A, C, 0, 1);
    q->width = q->opts.level == MF_ACTION ? C : 1;
}

static void add_critic_loss(struct loss *l, struct mf_val obs, struct mf_val value)
{
    struct mf_graph *g = l->graph;
    l->obs = obs;
    l->value = value;
    l->returns = mf_input(g, 1, 1);
    l->value_old = mf_input(g, 1, 1);
    l->value_weight = mf_input(g, 1, 1);
    l->knobs = mf_shared(g, 1, 4);
    mf_loss(g, mf_value_loss(g, value, l->returns, l->value_old, l->value_weight, l->knobs), 1);
}

static int plan(const struct mf_ppo *q, struct loss *l, struct mf_err *err)
{
    const float knobs[4] = {(float)q->opts.value_clip, (float)q->opts.huber_delta, 0, 0};
    int rc = mf_plan_new(&l->plan, q->engine, l->graph, &(struct mf_plan_opts){.backward = true}, err);
    if (rc == 0)
        mf_plan_set(l->plan, l->knobs, knobs);
    return rc;
}

static int build_full(struct mf_ppo *q, struct mf_err *err)
{
    const struct mf_ppo_opts *o = &q->opts;
    const float knobs[4] = {(float)o->clip_range, (float)o->dual_clip, (float)o->logprob_clamp, 0};
    struct mf_graph *g = q->full.graph = mf_graph_new(&q->policy->params);
    mf_score_build(g, q->policy, &q->score);
    q->old = mf_input(g, 1, mf_logprob_width(&q->policy->spec));
    level_of(q, g);
    q->advantage = mf_input(g, 1, 1);
    q->weight = mf_input(g, 1, q->width);
    q->knobs = mf_shared(g, 1, 4);
    mf_loss(g, mf_ppo_loss(g, q->new_level, q->old_level, q->advantage, q->weight, q->knobs), 1);
    if (o->target_kl > 0 && isfinite(o->target_kl)) {
        q->kl_weight = mf_input(g, 1, q->width);
        q->kl = mf_kl(g, q->new_level, q->old_level, q->kl_weight, q->knobs);
    }
    add_critic_loss(&q->full, q->score.obs, q->score.value);
    if (q->score.entropy.id && o->entropy_coef > 0) {
        q->entropy_weight = mf_input(g, 1, 1);
        mf_loss(g, mf_weigh(g, q->score.entropy, q->entropy_weight), -1);
    }
    int rc = plan(q, &q->full, err);
    if (rc == 0)
        mf_plan_set(q->full.plan, q->knobs, knobs);
    return rc;
}

static int build_warmup(struct mf_ppo *q, struct mf_err *err)
{
    const struct mf_policy_spec *s = &q->policy->spec;
    struct mf_graph *g = q->warmup.graph = mf_graph_new(&q->policy->params);
    const struct mf_val obs = mf_input(g, 1, s->net.O);
    const struct mf_share share = mf_net_features(g, &s->net, obs, true);
    add_critic_loss(&q->warmup, obs, mf_net_value(g, &s->net, s->n_critic, s->critic, &share));
    return plan(q, &q->warmup, err);
}

int mf_ppo_new(struct mf_ppo **ppo, struct mf_engine *e, struct mf_policy *p, const struct mf_ppo_opts *opts,
               struct mf_err *err)
{
    if (p->spec.n_critic == 0)
        return mf_err_set(err, MF_EUSAGE, "PPO needs a critic, but policy.critic_hidden is []");
    if (opts->recompute_logprobs && opts->proximal > 0)
        return mf_err_set(err, MF_EUSAGE,
                          "training.recompute_logprobs=true replaces the log-probabilities of the rollout, which "
                          "training.proximal=%g needs: set one of the two",
                          opts->proximal);
    struct mf_ppo *q = mf_xcalloc(1, sizeof *q);
    q->engine = e;
    q->policy = p;
    q->opts = *opts;
    int rc = build_full(q, err);
    if (rc == 0 && opts->critic_warmup_steps > 0)
        rc = build_warmup(q, err);
    if (rc == 0)
        rc = mf_optimizer_init(&q->optimizer, e, &p->params,
                               &(struct mf_optimizer_opts){.average = opts->ema_decay > 0,
                                                           .weight_decay = opts->weight_decay,
                                                           .patience = 3,
                                                           .rate = "training.learning_rate",
                                                           .counter = "minibatches"},
                               err);
    if (rc) {
        mf_ppo_free(q);
        return rc;
    }
    *ppo = q;
    return 0;
}

void mf_ppo_memory(const struct mf_ppo *q, size_t n, struct mf_memory *to)
{
    size_t most = mf_minibatch_most(n, &q->opts);
    mf_optimizer_memory(&q->optimizer, to);
    to->of[MF_MEMORY_ROWS] +=
        (double)(mf_rows_memory(&q->policy->spec, n) + mf_minibatch_memory(n, &q->opts, q->width));
    mf_plan_memory(q->full.plan, most, to);
    if (q->warmup.plan)
        mf_plan_memory(q->warmup.plan, most, to);
}

void mf_ppo_free(struct mf_ppo *q)
{
    if (!q)
        return;
    mf_plan_free(q->full.plan);
    mf_plan_free(q->warmup.plan);
    mf_graph_free(q->full.graph);
    mf_graph_free(q->warmup.graph);
    mf_optimizer_release(&q->optimizer);
    free(q);
}

struct mf_optimizer *mf_ppo_optimizer(struct mf_ppo *q)
{
    return &q->optimizer;
}

/* ---- one minibatch ---- */

struct io {
    struct mf_feed feed[12];
    struct mf_fetch fetch[4];
    int n, n_fetches;
};

/* Inputs and values that the graph lacks, or that have no rows, are left out. */
static void feed(struct io *io, struct mf_val input, const float *base, int stride, bool direct)
{
    if (input.id && base)
        io->feed[io->n++] = (struct mf_feed){.input = input, .base = base, .stride = (size_t)stride, .direct = direct};
}

static void fetch(struct io *io, struct mf_val value, float *base, int stride)
{
    if (value.id)
        io->fetch[io->n_fetches++] = (struct mf_fetch){.value = value, .base = base, .stride = (size_t)stride};
}

static void join_critic(struct io *io, const struct loss *l, const struct mf_rows *r, struct mf_minibatch *b)
{
    feed(io, l->obs, r->obs, r->O, false);
    feed(io, l->returns, r->returns, 1, false);
    feed(io, l->value_old, r->values, 1, false);
    feed(io, l->value_weight, b->value_weight, 1, true);
    fetch(io, l->value, b->value, 1);
}

static void join_policy(struct io *io, const struct mf_ppo *q, const struct mf_rows *r, struct mf_minibatch *b)
{
    feed(io, q->score.chain, r->chain, r->P * r->D, false);
    feed(io, q->score.coef, r->coef, r->k * 3, false);
    feed(io, q->score.time, r->time, 1, false);
    feed(io, q->old, r->old, r->E, false);
    feed(io, q->advantage, b->advantage, 1, true);
    feed(io, q->weight, b->weight, q->width, true);
    feed(io, q->kl_weight, b->kl_weight, q->width, true);
    feed(io, q->entropy_weight, b->entropy_weight, 1, true);
    fetch(io, q->new_level, b->new_logp, q->width);
    fetch(io, q->old_level, b->old_logp, q->width);
    fetch(io, q->score.entropy, b->entropy, 1);
}

static double schedule(const struct mf_ppo *q)
{
    const double total = (double)q->opts.total_timesteps, done = (double)q->policy->global_step;
    return mf_lr_factor((enum mf_lr_schedule)q->opts.lr_schedule, total > 0 ? fmin(1, done / total) : 0, 1);
}

static struct mf_step next_step(const struct mf_ppo *q, bool warm)
{
    const struct mf_ppo_opts *o = &q->opts;
    const double s = schedule(q);
    return (struct mf_step){
        .lr = {[MF_GROUP_POLICY] = warm ? 0 : s * o->learning_rate,
               [MF_GROUP_ENCODER] = warm || q->policy->encoder_frozen ? 0 : s * o->learning_rate,
               [MF_GROUP_NOISE] = warm ? 0 : s * o->noise_learning_rate,
               [MF_GROUP_CRITIC] = s * o->critic_learning_rate},
        .max_norm = o->max_grad_norm,
        .separate = o->clip == MF_CLIP_SEPARATE,
        .ema_decay = o->ema_decay,
        .veto = warm ? MF_NONE : q->kl,
        .most = o->target_kl,
    };
}

static int take(struct mf_ppo *q, const struct mf_rows *r, struct mf_minibatch *b, struct mf_ppo_stats *st,
                struct mf_err *err)
{
    const bool warm = q->optimizer.minibatches < q->opts.critic_warmup_steps;
    const struct loss *l = warm ? &q->warmup : &q->full;
    const struct mf_step step = next_step(q, warm);
    struct mf_verdict v;
    struct io io = {.n = 0};
    join_critic(&io, l, r, b);
    if (!warm)
        join_policy(&io, q, r, b);
    const struct mf_batch batch = {
        .n = b->n, .index = b->row, .feed = io.feed, .n_feeds = io.n, .fetch = io.fetch, .n_fetches = io.n_fetches};
    int rc = mf_optimizer_learn(&q->optimizer, l->plan, &batch, &step, &v, err);
    if (rc && rc != MF_EMATH)
        return rc;
    if (!warm)
        mf_minibatch_measure(b, &q->opts, st);
    mf_minibatch_value_loss(b, r, &q->opts, st);
    if (v.vetoed) {
        st->kl_stop = true;
        return 0;
    }
    st->minibatches++;
    st->skipped += !v.finite;
    st->grad_norm += v.total;
    st->critic_grad_norm += v.norm[MF_GROUP_CRITIC];
    st->learning_rate = v.finite ? schedule(q) * q->opts.learning_rate : st->learning_rate;
    return rc;
}

/* ---- the round ---- */

/* NaN where the returns vary by no more than rounding errors: a return is the sum of an advantage and a value. */
static double explained_variance(const struct mf_rows *r)
{
    double n = (double)r->n_live, mean_r = 0, mean_e = 0, var_r = 0, var_e = 0, most = 0;
    for (size_t i = 0; i < r->n_live; i++) {
        uint32_t row = r->live[i];
        mean_r += (double)r->returns[row] / n;
        mean_e += ((double)r->returns[row] - (double)r->values[row]) / n;
        most = fmax(most, fmax(fabs((double)r->returns[row]), fabs((double)r->values[row])));
    }
    for (size_t i = 0; i < r->n_live; i++) {
        uint32_t row = r->live[i];
        double dr = (double)r->returns[row] - mean_r;
        double de = (double)r->returns[row] - (double)r->values[row] - mean_e;
        var_r += dr * dr;
        var_e += de * de;
    }
    return sqrt(var_r / n) > ROUNDINGS * FLT_EPSILON * most ? 1 - var_e / var_r : NAN;
}

static void means(struct mf_ppo_stats *st, double measured)
{
    double n = measured > 0 ? measured : 1;
    double *const sums[] = {&st->policy_loss, &st->value_loss,      &st->entropy,    &st->kl_k1,
                            &st->kl_k3,       &st->clip_fraction,   &st->ratio_mean, &st->clamped_fraction,
                            &st->grad_norm,   &st->critic_grad_norm};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        *sums[i] /= n;
}

int mf_ppo_update(struct mf_ppo *q, struct mf_rows *r, struct mf_ppo_stats *st, struct mf_err *err)
{
    *st =
        (struct mf_ppo_stats){.explained_variance = explained_variance(r), .correction_max = NAN, .lagged = r->lagged};
    struct mf_minibatch b = {.n = 0};
    if (r->n_live == 0)
        return 0;
    int rc = mf_minibatch_init(&b, r, &q->opts, q->width, err);
    if (rc)
        return rc;
    if (q->opts.recompute_logprobs)
        rc = mf_recompute(q->engine, q->policy, r, err);
    else if (q->opts.proximal > 0 && r->lagged)
        rc = mf_proximal(q->engine, q->policy, r, &q->opts, q->width, st, err);
    double measured = 0;
    mf_minibatch_normalize_round(&b, r);
    mf_score_set(q->full.plan, &q->score, q->policy);
    for (int64_t epoch = 0; rc == 0 && epoch < q->opts.num_epochs && !st->kl_stop; epoch++) {
        mf_minibatch_shuffle(&b, r, q->policy->iter, epoch);
        while (rc == 0 && !st->kl_stop && mf_minibatch_next(&b, r)) {
            rc = mf_stop_check(err);
            if (rc == 0)
                rc = take(q, r, &b, st, err);
            measured++;
        }
    }
    mf_minibatch_release(&b);
    means(st, measured);
    return rc ? rc : mf_optimizer_settle(&q->optimizer, err);
}
