/* ppo_update.c - the update by one round: minibatches, of which the device computes one while the host prepares the
 * next and measures the one before.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/stop.h"
#include "dev/device.h"
#include "rl/minibatch.h"
#include "rl/ppo_priv.h"
#include "rl/proximal.h"
#include "rl/rfc.h"
#include "rl/rows_obs.h"

enum { ROUNDINGS = 32 }; /* of a float return: one for each reward in its sum; they partly cancel */

/* ---- one minibatch ---- */

struct io {
    struct mf_feed feed[20];
    struct mf_fetch fetch[5];
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

static void join_critic(struct io *io, const struct mf_ppo_loss *l, const struct mf_rows *r, struct mf_minibatch *b)
{
    feed(io, l->returns, r->returns, 1, false);
    feed(io, l->value_old, r->values, 1, false);
    feed(io, l->value_weight, b->value_weight, 1, true);
    fetch(io, l->value, b->value, 1);
}

/* obs: of the minibatch's rows; NULL: the rows have them. */
static void join_policy(struct io *io, const struct mf_ppo *q, const struct mf_rows *r, struct mf_minibatch *b,
                        const float *obs)
{
    struct mf_feed *first = io->feed + io->n;
    io->n += mf_rows_feed(r, &q->score, first);
    first->base = obs ? obs : first->base;
    feed(io, q->old, r->old, r->E, false);
    feed(io, q->advantage, b->advantage, 1, true);
    feed(io, q->weight, b->weight, q->width, true);
    feed(io, q->kl_weight, b->kl_weight, q->width, true);
    feed(io, q->entropy_weight, b->entropy_weight, 1, true);
    fetch(io, q->new_level, b->new_logp, q->width);
    fetch(io, q->old_level, b->old_logp, q->width);
    fetch(io, q->score.entropy, b->entropy, 1);
}

static void join_reflow(struct io *io, const struct mf_reflow *r, const struct mf_rfc_rows *q, int D)
{
    feed(io, r->x, q->x, D, true);
    feed(io, r->target, q->target, D, true);
    feed(io, r->time, q->time, 1, true);
    feed(io, r->weight, q->weight, 1, true);
    fetch(io, r->loss, q->loss, 1);
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
               [MF_GROUP_STEER] = warm ? 0 : s * o->learning_rate,
               [MF_GROUP_ENCODER] = warm ? 0 : s * o->learning_rate,
               [MF_GROUP_NOISE] = warm ? 0 : s * o->noise_learning_rate,
               [MF_GROUP_CRITIC] = s * o->critic_learning_rate},
        .max_norm = o->max_grad_norm,
        .separate = o->clip == MF_CLIP_SEPARATE,
        .ema_decay = o->ema_decay,
        .veto = warm ? MF_NONE : q->kl,
        .most = o->target_kl,
    };
}

/* ---- the minibatches under way ---- */

struct under_way {
    struct mf_minibatch *batch;
    const struct mf_ppo_loss *loss;
    struct mf_verdict verdict;
};

struct update {
    struct mf_ppo *q;
    struct mf_rows *rows;
    struct mf_ppo_stats *stats;
    struct mf_minibatches minibatches;
    struct mf_batch_obs obs;                     /* of the last that was started */
    struct under_way job[MF_MINIBATCHES];        /* used in turn */
    int64_t started, finished, measured, scored; /* measured; with a ratio, which the warm-up has not */
    const struct mf_ppo_loss *last;              /* of the job before; NULL: none yet */
};

static int start(struct update *u, struct mf_minibatch *b, struct mf_err *err)
{
    struct mf_ppo *q = u->q;
    struct under_way *j = &u->job[u->started % MF_MINIBATCHES];
    const bool warm =
        q->warmup.plan && q->optimizer.minibatches + u->started - u->finished < q->opts.critic_warmup_steps;
    const struct mf_ppo_loss *l = warm ? &q->warmup : &q->full;
    struct mf_step step = next_step(q, warm);
    struct io io = {.n = 0};
    step.first = l != u->last; /* nothing is vetoed in the warm-up, which comes first */
    int rc =
        u->obs.obs ? mf_batch_obs_bring(&u->obs, mf_engine_ranks(q->engine), l->plan, u->rows, b->row, b->n, err) : 0;
    if (rc)
        return rc;
    join_critic(&io, l, u->rows, b);
    if (warm && u->obs.obs)
        feed(&io, l->obs, u->obs.obs, u->rows->O, true);
    else if (warm)
        feed(&io, l->obs, u->rows->obs, u->rows->O, false);
    else
        join_policy(&io, q, u->rows, b, u->obs.obs);
    if (!warm && q->reflow.loss.id) {
        mf_rfc_draw(b, u->rows, &q->opts, q->policy, u->started);
        join_reflow(&io, &q->reflow, &b->rfc, u->rows->D);
    }
    const struct mf_batch batch = {
        .n = b->n, .index = b->row, .feed = io.feed, .n_feeds = io.n, .fetch = io.fetch, .n_fetches = io.n_fetches};
    *j = (struct under_way){.batch = b, .loss = u->last = l};
    rc = mf_optimizer_start(&q->optimizer, l->plan, &batch, &step, &j->verdict, err);
    u->started += rc == 0;
    return rc;
}

/* The oldest: ends it and measures it. */
static int finish(struct update *u, struct mf_err *err)
{
    struct mf_ppo *q = u->q;
    struct mf_ppo_stats *st = u->stats;
    const struct under_way *j = &u->job[u->finished++ % MF_MINIBATCHES];
    const struct mf_verdict *v = &j->verdict;
    int rc = mf_optimizer_finish(&q->optimizer, j->loss->plan, v, err);
    if (rc && rc != MF_EMATH)
        return rc;
    u->measured++;
    u->scored += j->loss == &q->full;
    if (j->loss == &q->full)
        mf_minibatch_measure(j->batch, &q->opts, st);
    if (j->loss == &q->full && q->reflow.loss.id)
        mf_rfc_measure(j->batch, &q->opts, st);
    if (j->loss->value.id)
        mf_minibatch_value_loss(j->batch, u->rows, &q->opts, st);
    if (v->vetoed) {
        st->kl_stop = true;
        return 0;
    }
    st->minibatches++;
    st->skipped += !v->finite;
    st->grad_norm += v->total;
    st->critic_grad_norm += v->norm[MF_GROUP_CRITIC];
    st->learning_rate = v->finite ? schedule(q) * q->opts.learning_rate : st->learning_rate;
    return rc;
}

/* What the update ends without: behind a veto, which holds for them, too, or after a failure. A rank that fails may be
 * the only one: then the others wait for it elsewhere, until it says why. */
static int drop(struct update *u, int rc, struct mf_err *err)
{
    struct mf_err second;
    if (rc && rc != MF_STOPPED && mf_engine_ranks(u->q->engine))
        return rc;
    while (u->finished < u->started) {
        const struct under_way *j = &u->job[u->finished++ % MF_MINIBATCHES];
        int failed = mf_plan_finish(j->loss->plan, rc ? &second : err);
        rc = rc ? rc : failed;
    }
    return rc;
}

static int run_epochs(struct update *u, struct mf_err *err)
{
    const struct mf_ppo *q = u->q;
    struct mf_minibatch *b;
    int rc = 0;
    for (int64_t epoch = 0; rc == 0 && epoch < q->opts.num_epochs && !u->stats->kl_stop; epoch++) {
        mf_minibatches_shuffle(&u->minibatches, u->rows, q->policy->iter, epoch);
        while (rc == 0 && !u->stats->kl_stop && (b = mf_minibatches_next(&u->minibatches, u->rows))) {
            rc = mf_stop_check(err);
            if (rc == 0)
                rc = start(u, b, err);
            if (rc == 0 && u->started - u->finished == u->minibatches.sets)
                rc = finish(u, err);
        }
    }
    while (rc == 0 && !u->stats->kl_stop && u->finished < u->started)
        rc = finish(u, err);
    return drop(u, rc, err);
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

/* NaN: no minibatch had a value. */
static void means(const struct update *u)
{
    struct mf_ppo_stats *st = u->stats;
    double *const of_scored[] = {&st->policy_loss,
                                 &st->entropy,
                                 &st->kl_k1,
                                 &st->kl_k3,
                                 &st->clip_fraction,
                                 &st->ratio_mean,
                                 &st->clamped_fraction,
                                 &st->rfc_loss,
                                 &st->reflow_mask_ratio};
    double *const of_all[] = {&st->value_loss, &st->grad_norm, &st->critic_grad_norm};
    for (size_t i = 0; i < sizeof of_scored / sizeof *of_scored; i++)
        *of_scored[i] /= (double)u->scored;
    for (size_t i = 0; i < sizeof of_all / sizeof *of_all; i++)
        *of_all[i] /= (double)u->measured;
    st->ratio_max = u->scored ? st->ratio_max : NAN;
}

/* The rows that feeds read by index: those that score the policy come first, then those that a new score changes, or
 * that the losses add. Returns their number. */
enum { HELD = MF_ROW_FEEDS + 3 };

static int held(const struct mf_ppo *q, const struct mf_rows *r, struct mf_feed all[HELD], int *scored)
{
    const struct mf_feed more[] = {
        {.base = r->old, .stride = (size_t)r->E}, {.base = r->returns, .stride = 1}, {.base = r->values, .stride = 1}};
    *scored = mf_rows_feed(r, &q->score, all);
    memcpy(all + *scored, more, sizeof more);
    return *scored + 3;
}

static int hold(const struct mf_ppo *q, const struct mf_rows *r, const struct mf_feed *all, int n, struct mf_err *err)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < n; i++)
        rc = all[i].direct ? 0 : mf_engine_hold(q->engine, all[i].base, r->n * all[i].stride, err);
    return rc;
}

static int learn(struct update *u, struct mf_err *err)
{
    struct mf_ppo *q = u->q;
    struct mf_rows *r = u->rows;
    struct mf_feed all[HELD];
    int scored, n = held(q, r, all, &scored), rc = hold(q, r, all, scored, err);
    if (rc == 0 && q->opts.recompute_logprobs)
        rc = mf_recompute(q->engine, q->policy, r, err);
    else if (rc == 0 && q->opts.proximal > 0 && r->lagged)
        rc = mf_proximal(q->engine, q->policy, r, &q->opts, q->width, u->stats, err);
    if (rc == 0)
        rc = hold(q, r, all + scored, n - scored, err);
    if (rc == 0) {
        mf_minibatches_normalize_round(&u->minibatches, r);
        mf_score_set(q->full.plan, &q->score, q->policy);
        mf_reflow_set(q->full.plan, &q->reflow, q->policy);
        rc = run_epochs(u, err);
    }
    for (int i = 0; i < n; i++)
        mf_engine_let_go(q->engine, all[i].base);
    return rc ? rc : mf_optimizer_settle(&q->optimizer, err);
}

int mf_ppo_update(struct mf_ppo *q, struct mf_rows *r, struct mf_ppo_stats *st, struct mf_err *err)
{
    struct update u = {.q = q, .rows = r, .stats = st};
    *st = (struct mf_ppo_stats){.explained_variance = q->policy->spec.n_critic ? explained_variance(r) : NAN,
                                .value_loss = q->policy->spec.n_critic ? 0 : NAN,
                                .correction_max = NAN,
                                .rfc_loss = q->reflow.loss.id ? 0 : NAN,
                                .reflow_mask_ratio = q->reflow.loss.id ? 0 : NAN,
                                .lagged = r->lagged};
    if (r->n_live == 0) {
        means(&u);
        return 0;
    }
    int rc = mf_minibatches_init(&u.minibatches, r, &q->opts, q->width, mf_ppo_ahead(q), err);
    if (rc)
        return rc;
    rc = mf_batch_obs_open(&u.obs, r, mf_minibatch_most(r->n_live, &q->opts), err);
    if (rc == 0)
        rc = learn(&u, err);
    mf_batch_obs_close(&u.obs);
    mf_minibatches_release(&u.minibatches);
    means(&u);
    return rc;
}
