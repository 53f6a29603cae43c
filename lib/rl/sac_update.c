/* sac_update.c - the gradient steps by a round. */
#include <math.h>
#include <string.h>

#include "base/stop.h"
#include "rl/sac_priv.h"

struct minibatch { /* B rows */
    size_t B, *at, *next;
    float *obs, *obs_next, *summary, *summary_next, *action, *x, *eps, *noise, *q, *y, *reward, *logpi, *loss, *weight,
        *alpha;
    uint8_t *end;
    struct mf_arena arena;
};

static void place(const struct mf_sac *s, struct minibatch *b, struct mf_arena *a)
{
    const size_t B = b->B = (size_t)s->opts.batch_size, wide = (size_t)(s->D > s->X ? s->D : s->X),
                 O = (size_t)s->policy->spec.net.O;
    b->at = mf_arena_take(a, B, sizeof *b->at);
    b->next = mf_arena_take(a, B, sizeof *b->next);
    b->end = mf_arena_take(a, B, 1);
    const struct {
        float **to;
        size_t cols;
    } all[] = {{&b->obs, O},
               {&b->obs_next, O},
               {&b->summary, (size_t)s->F},
               {&b->summary_next, (size_t)s->F},
               {&b->action, wide},
               {&b->x, wide},
               {&b->eps, (size_t)s->D},
               {&b->noise, (size_t)s->D},
               {&b->q, (size_t)s->n},
               {&b->y, (size_t)s->n},
               {&b->reward, 1},
               {&b->logpi, 1},
               {&b->loss, 1},
               {&b->weight, 1},
               {&b->alpha, 1}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i].to = mf_arena_take(a, B * all[i].cols, sizeof(float));
}

size_t mf_sac_minibatch(const struct mf_sac *s)
{
    struct minibatch b = {.B = 0};
    place(s, &b, &b.arena);
    return b.arena.used;
}

/* ---- plans ---- */

struct run {
    struct mf_sac_net *m;
    struct mf_feed feed[5];
    struct mf_fetch fetch[3];
    int n_feeds, n_fetches;
};

static void feed(struct run *r, struct mf_val input, const float *base)
{
    r->feed[r->n_feeds++] =
        (struct mf_feed){.input = input, .base = base, .stride = (size_t)mf_cols(r->m->g, input), .direct = false};
}

static void fetch(struct run *r, struct mf_val value, float *base)
{
    r->fetch[r->n_fetches++] = (struct mf_fetch){value, base, (size_t)mf_cols(r->m->g, value)};
}

static struct mf_batch batch_of(const struct run *r, size_t B)
{
    return (struct mf_batch){
        .n = B, .feed = r->feed, .n_feeds = r->n_feeds, .fetch = r->fetch, .n_fetches = r->n_fetches};
}

static int forward(const struct run *r, size_t B, struct mf_err *err)
{
    const struct mf_batch batch = batch_of(r, B);
    return mf_plan_run(r->m->plan, &batch, err);
}

/* One step of the group's parameters; their average follows where it is that of targets. */
static int learn(const struct mf_sac *s, const struct run *r, size_t B, struct mf_learned *l, enum mf_group group,
                 double *norm, struct mf_err *err)
{
    const bool targets = l == s->td && group == MF_GROUP_CRITIC;
    struct mf_step step = {
        .first = true, .ema_decay = 1 - s->opts.tau, .averaged = targets ? 1u << MF_GROUP_CRITIC : 0};
    const struct mf_batch batch = batch_of(r, B);
    struct mf_verdict v = {.finite = false};
    step.lr[group] = s->opts.learning_rate;
    int rc = mf_plan_learn(r->m->plan, &batch, &step, &l->adam, &v, err);
    *norm = v.norm[group];
    return rc || v.finite
               ? rc
               : mf_err_set(err, MF_EMATH, "the gradient is not finite at gradient step %lld: lower sac.learning_rate",
                            (long long)s->steps);
}

static int summarize(struct mf_sac *s, size_t B, const float *obs, float *summary, struct mf_err *err)
{
    struct run r = {.m = &s->net[MF_SAC_SUMMARY]};
    feed(&r, r.m->obs, obs);
    fetch(&r, r.m->out, summary);
    return forward(&r, B, err);
}

/* The executed actions of the flow from `noise`. */
static int act(struct mf_sac *s, size_t B, const float *obs, const float *noise, float *actions, struct mf_err *err)
{
    return mf_sampler_run(s->flow, (int)B, &(struct mf_sample){.obs = obs, .noise = noise, .actions = actions}, err);
}

static int judge(struct mf_sac_net *m, size_t B, const float *summary, const float *x, float *q, struct mf_err *err)
{
    struct run r = {.m = m};
    feed(&r, m->obs, summary);
    feed(&r, m->x, x);
    fetch(&r, m->out, q);
    return forward(&r, B, err);
}

/* A step of critics towards y. *loss: half the sum of their squared errors, on average over the rows. */
static int teach(struct mf_sac *s, struct mf_sac_net *m, struct mf_learned *l, struct minibatch *b, const float *x,
                 double *loss, struct mf_err *err)
{
    struct run r = {.m = m};
    double norm;
    feed(&r, m->obs, b->summary);
    feed(&r, m->x, x);
    feed(&r, m->y, b->y);
    feed(&r, m->weight, b->weight);
    fetch(&r, m->loss, b->loss);
    int rc = learn(s, &r, b->B, l, MF_GROUP_CRITIC, &norm, err);
    for (size_t i = 0; rc == 0 && i < b->B; i++)
        *loss += .5 * s->n * (double)b->loss[i];
    return rc;
}

/* ---- a gradient step ---- */

enum { DRAW, NEXT_NOISE, ACTOR_NOISE, DISTILL_DRAW, DISTILL_NOISE };

static struct mf_rng numbers(const struct mf_sac *s, int what, int64_t step)
{
    return mf_rng_at((uint64_t)s->opts.seed, MF_RNG_SAC, (uint32_t)what, (uint32_t)(step >> 32), (uint32_t)step);
}

/* Some row has a successor. */
static void gather(struct mf_sac *s, struct minibatch *b, struct mf_rng rng, bool successors)
{
    const struct mf_replay *r = &s->replay;
    const size_t O = (size_t)r->O, D = (size_t)s->D, X = (size_t)s->X;
    mf_replay_draw(r, &rng, b->B, b->at, b->next);
    for (size_t i = 0; i < b->B; i++) {
        const size_t at = b->at[i];
        memcpy(b->obs + i * O, r->obs + at * O, O * sizeof(float));
        if (!successors)
            continue;
        memcpy(b->obs_next + i * O, r->obs + b->next[i] * O, O * sizeof(float));
        memcpy(b->action + i * X, r->action + at * X, X * sizeof(float));
        memcpy(b->noise + i * D, r->noise + at * D, D * sizeof(float));
        b->reward[i] = r->reward[at];
        b->end[i] = r->flags[at] & MF_ROW_END;
    }
}

static void scale(float *to, const float *from, size_t n, double by)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (float)(by * (double)from[i]);
}

/* y of every critic, by the averaged critics at the next decision. */
static int targets(struct mf_sac *s, struct minibatch *b, double alpha, struct mf_err *err)
{
    const bool na = s->opts.form == MF_SAC_NA;
    const size_t numbers_of = b->B * (size_t)s->D;
    struct mf_rng rng = numbers(s, NEXT_NOISE, s->steps);
    struct run r = {.m = &s->net[MF_SAC_PI]};
    mf_rng_normal(&rng, b->eps, numbers_of);
    feed(&r, r.m->obs, b->summary_next);
    feed(&r, r.m->eps, b->eps);
    fetch(&r, r.m->out, b->x);
    fetch(&r, r.m->logpi, b->logpi);
    int rc = forward(&r, b->B, err);
    if (rc == 0 && na) {
        scale(b->eps, b->x, numbers_of, (double)s->policy->spec.steer_magnitude);
        rc = act(s, b->B, b->obs_next, b->eps, b->x, err);
    }
    if (rc ||
        (rc = mf_weights_copy(s->engine, &s->td->averaged, &s->td->params, &s->td->adam, 1u << MF_GROUP_CRITIC, err)) ||
        (rc = judge(&s->net[MF_SAC_TARGET], b->B, b->summary_next, b->x, b->q, err)))
        return rc;
    for (size_t i = 0; i < b->B; i++) {
        const double least = (double)mf_qnet_min(b->q + i * (size_t)s->n, s->n, NULL),
                     after = b->end[i] ? 0 : s->opts.gamma * (least - alpha * (double)b->logpi[i]);
        for (int j = 0; j < s->n; j++)
            b->y[i * (size_t)s->n + (size_t)j] = (float)((double)b->reward[i] + after);
    }
    return 0;
}

/* Adam's step of log alpha; the loss is -log alpha (mean log pi + target). */
static void temper(struct mf_sac *s, double logpi)
{
    const double g = -(logpi + s->opts.target_entropy), b1 = .9, b2 = .999;
    s->alpha_steps++;
    s->alpha_m = b1 * s->alpha_m + (1 - b1) * g;
    s->alpha_v = b2 * s->alpha_v + (1 - b2) * g * g;
    s->log_alpha -= s->opts.learning_rate * s->alpha_m / (1 - pow(b1, (double)s->alpha_steps)) /
                    (sqrt(s->alpha_v / (1 - pow(b2, (double)s->alpha_steps))) + 1e-8);
}

static int improve(struct mf_sac *s, struct minibatch *b, double alpha, struct mf_sac_stats *st, struct mf_err *err)
{
    struct run r = {.m = &s->net[MF_SAC_ACTOR]};
    struct mf_rng rng = numbers(s, ACTOR_NOISE, s->steps);
    double logpi = 0, q = 0, norm;
    mf_rng_normal(&rng, b->eps, b->B * (size_t)s->D);
    for (size_t i = 0; i < b->B; i++)
        b->alpha[i] = (float)(alpha / (double)b->B);
    feed(&r, r.m->obs, b->summary);
    feed(&r, r.m->eps, b->eps);
    feed(&r, r.m->alpha, b->alpha);
    feed(&r, r.m->weight, b->weight);
    fetch(&r, r.m->logpi, b->logpi);
    fetch(&r, r.m->out, b->loss);
    int rc = learn(s, &r, b->B, &s->agent, MF_GROUP_STEER, &norm, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < b->B; i++) {
        logpi += (double)b->logpi[i] / (double)b->B;
        q -= (double)b->loss[i] / (double)b->B;
    }
    temper(s, logpi);
    st->log_pi += logpi;
    st->q += q;
    st->actor_loss += alpha * logpi - q;
    st->actor_grad_norm += norm;
    return 0;
}

static int step(struct mf_sac *s, struct minibatch *b, struct mf_sac_stats *st, struct mf_err *err)
{
    const bool na = s->opts.form == MF_SAC_NA;
    const double alpha = exp(s->log_alpha);
    double loss = 0;
    gather(s, b, numbers(s, DRAW, s->steps), true);
    int rc = summarize(s, b->B, b->obs, b->summary, err);
    if (rc || (rc = summarize(s, b->B, b->obs_next, b->summary_next, err)) || (rc = targets(s, b, alpha, err)))
        return rc;
    if (!na)
        scale(b->noise, b->noise, b->B * (size_t)s->D, 1 / (double)s->policy->spec.steer_magnitude);
    if ((rc = teach(s, &s->net[MF_SAC_TD], s->td, b, na ? b->action : b->noise, &loss, err)) ||
        (rc = improve(s, b, alpha, st, err)))
        return rc;
    st->critic_loss += loss;
    st->alpha += alpha;
    s->steps++;
    return 0;
}

/* The critics of noise learn what the critics of actions say of the flow's actions. */
static int distill(struct mf_sac *s, struct minibatch *b, struct mf_sac_stats *st, struct mf_err *err)
{
    struct mf_rng rng = numbers(s, DISTILL_NOISE, s->distilled);
    double loss = 0;
    gather(s, b, numbers(s, DISTILL_DRAW, s->distilled), false);
    mf_rng_normal(&rng, b->noise, b->B * (size_t)s->D);
    int rc = summarize(s, b->B, b->obs, b->summary, err);
    if (rc || (rc = act(s, b->B, b->obs, b->noise, b->x, err)) ||
        (rc = judge(&s->net[MF_SAC_NOW], b->B, b->summary, b->x, b->y, err)))
        return rc;
    scale(b->noise, b->noise, b->B * (size_t)s->D, 1 / (double)s->policy->spec.steer_magnitude);
    rc = teach(s, &s->net[MF_SAC_DISTILL], &s->agent, b, b->noise, &loss, err);
    st->distill_loss += loss;
    s->distilled++;
    return rc;
}

/* ---- a round ---- */

/* The gradient steps that are due after so many decisions; later where none has a successor or an end yet. */
static int64_t due(const struct mf_sac *s)
{
    struct mf_rng unused = numbers(s, DRAW, s->steps);
    if (!mf_replay_draw(&s->replay, &unused, 0, NULL, NULL))
        return s->steps;
    const int64_t decisions = s->seen - s->opts.warmup_decisions;
    return decisions > 0 ? (int64_t)floor((double)decisions * s->opts.updates) : 0;
}

static int run_steps(struct mf_sac *s, struct minibatch *b, struct mf_sac_stats *st, struct mf_err *err)
{
    int rc = 0;
    int64_t distilled = 0;
    for (const int64_t until = due(s); rc == 0 && s->steps < until; st->steps++) {
        if ((rc = mf_stop_check(err)) || (rc = step(s, b, st, err)) || s->opts.form != MF_SAC_NA ||
            s->steps % s->opts.distill_every)
            continue;
        for (int64_t i = 0; rc == 0 && i < s->opts.distill_steps; i++, distilled++)
            rc = distill(s, b, st, err);
    }
    double *const sums[] = {&st->critic_loss, &st->actor_loss, &st->q, &st->log_pi, &st->alpha, &st->actor_grad_norm};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        *sums[i] /= (double)st->steps; /* none: NaN */
    st->distill_loss /= (double)distilled;
    return rc;
}

/* Both were trained on the device; the host serves and saves them. */
static int settle(struct mf_sac *s, struct mf_err *err)
{
    int rc = mf_engine_settle(s->engine, &s->agent.params, &s->agent.adam, err);
    if (rc == 0 && s->td != &s->agent)
        rc = mf_engine_settle(s->engine, &s->critics.params, &s->critics.adam, err);
    if (rc == 0)
        mf_sac_publish(s);
    return rc;
}

int mf_sac_update(struct mf_sac *s, const struct mf_rows *rows, struct mf_err *err)
{
    struct mf_sac_stats *st = &s->stats;
    struct minibatch b = {.B = 0};
    *st = (struct mf_sac_stats){.learning_rate = s->opts.learning_rate};
    if (rows->n > s->replay.room)
        return mf_err_set(err, MF_EUSAGE,
                          "a round of %zu decisions exceeds sac.replay_decisions=%zu: raise it, or lower "
                          "training.num_envs or training.num_steps_per_rollout",
                          rows->n, s->replay.room);
    s->seen += (int64_t)mf_replay_add(&s->replay, rows, s->opts.reward_shift);
    st->replay = s->replay.total < (int64_t)s->replay.room ? (size_t)s->replay.total : s->replay.room;
    s->plain.params = s->policy->params; /* one version: the device is sent them once */
    place(s, &b, &b.arena);
    int rc = mf_arena_alloc(&b.arena, "a minibatch", err);
    if (rc)
        return rc;
    place(s, &b, &b.arena);
    for (size_t i = 0; i < b.B; i++)
        b.weight[i] = 1 / (float)b.B;
    rc = run_steps(s, &b, st, err);
    mf_arena_release(&b.arena);
    return rc ? rc : settle(s, err);
}
