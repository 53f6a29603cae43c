#include "rl/offline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "rl/weigh.h"

enum { ALIKE = 200 };                 /* minibatches until the log tells of weights that are all the same */
static const double ALIKE_STD = 1e-3; /* their standard deviation, below this */

#define BIND(key, field)                                                                                               \
    {                                                                                                                  \
        key, offsetof(struct mf_offline_opts, field)                                                                   \
    }
const struct mf_bind mf_offline_binds[] = {
    BIND("clone.weight", weight),
    BIND("clone.beta", beta),
    BIND("clone.weight_clip", clip),
    BIND("clone.gamma", gamma),
    BIND("clone.reward_scale", reward_scale),
    BIND("clone.expectile", expectile),
    BIND("clone.critics", critics),
    BIND("clone.critic_hidden", hidden),
    BIND("clone.critic_learning_rate", critic_rate),
    BIND("clone.target_tau", tau),
    {0},
};

/* ---- opening ---- */

static int find(const struct mf_weigh **kind, const char *name, struct mf_err *err)
{
    char names[256] = "none";
    *kind = NULL;
    if (!strcmp(name, "none"))
        return 0;
    for (size_t i = 0; mf_weighs[i]; i++) {
        mf_list_add(names, sizeof names, ", ", mf_weighs[i]->name);
        if (!strcmp(mf_weighs[i]->name, name))
            *kind = mf_weighs[i];
    }
    return *kind ? 0 : mf_err_set(err, MF_EUSAGE, "clone.weight=%.80s is not one of %s", name, names);
}

static int check(const struct mf_offline *o, const struct mf_policy_spec *s, struct mf_err *err)
{
    if ((o->kind->q || o->kind->value) && mf_layout_pictures(&s->obs))
        return mf_err_set(err, MF_EUSAGE,
                          "clone.weight=%s learns values of observations without pictures: choose others by "
                          "policy.obs_keys, or clone with clone.weight=success",
                          o->kind->name);
    if (o->kind->q && o->opts.hidden.n < 1)
        return mf_err_set(err, MF_EUSAGE, "clone.critic_hidden=[]: critics have at least one hidden layer");
    if (o->opts.hidden.n > MF_DIMS_MAX)
        return mf_err_set(err, MF_EUSAGE, "clone.critic_hidden has %d layers, more than %d", o->opts.hidden.n,
                          MF_DIMS_MAX);
    return 0;
}

static struct mf_critics_opts critics_of(const struct mf_offline *o, const struct mf_policy_spec *s, uint64_t seed)
{
    struct mf_critics_opts c = {
        .O = s->net.O,
        .A = s->n_action_steps * mf_action_width(s),
        .q = {.n = o->kind->q ? (int)o->opts.critics : 0, .n_hidden = o->opts.hidden.n, .act = MF_ACT_MISH},
        .value = o->kind->value,
        .tau = o->opts.tau,
        .seed = seed};
    for (int i = 0; i < c.q.n_hidden; i++)
        c.q.hidden[i] = (int)o->opts.hidden.v[i];
    return c;
}

static void place(struct mf_offline *o, const struct mf_net_spec *s, size_t n, struct mf_arena *a)
{
    const size_t N = o->kind->q ? (size_t)o->opts.critics : 0;
    float **each[] = {&o->v, &o->next_v, &o->y, &o->mask, &o->v_y, &o->v_weight, &o->advantage};
    o->ahead = mf_arena_take(a, n, sizeof *o->ahead);
    o->next_obs = mf_arena_take(a, n * (size_t)s->O, sizeof(float));
    o->noise = mf_arena_take(a, n * (size_t)s->D, sizeof(float));
    o->points = mf_arena_take(a, n * (size_t)s->D, sizeof(float));
    o->q = mf_arena_take(a, n * N, sizeof(float));
    o->next_q = mf_arena_take(a, n * N, sizeof(float));
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        *each[i] = mf_arena_take(a, n, sizeof(float));
}

/* The networks of an estimator; outlines if the cloning is one. */
static int open_networks(struct mf_offline *o, struct mf_cloning *c, struct mf_err *err)
{
    const struct mf_policy_spec *spec = &c->policy.spec;
    const struct mf_critics_opts critics = critics_of(o, spec, (uint64_t)c->opts.seed);
    const bool outline = !c->policy.params.value;
    int rc = check(o, spec, err);
    if (rc == 0 && (o->kind->q || o->kind->value))
        rc = mf_critics_open(&o->critics, c->engine, &critics, outline, err);
    if (rc || !o->kind->acts || (rc = mf_policy_outline(&o->actor, spec, err)))
        return rc;
    mf_params_like(&o->actor.params, &c->policy.params); /* whose values are copied as one array */
    rc = outline ? 0 : mf_params_alloc(&o->actor.params, err);
    return rc ? rc : mf_sampler_new(&o->sampler, c->engine, &o->actor, true, err);
}

static int weigh(void *self, const struct mf_weigh_batch *b, float *weight, struct mf_weigh_stats *stats,
                 struct mf_err *err)
{
    struct mf_offline *o = self;
    *stats = (struct mf_weigh_stats){.critic_loss = NAN, .q_mean = NAN, .advantage_mean = NAN};
    int rc = o->kind->weigh(o, b, weight, stats, err);
    if (rc)
        return rc;
    double squares = 0;
    stats->weight_mean = mf_weigh_mean(b->n, weight);
    for (size_t i = 0; i < b->n; i++)
        squares += ((double)weight[i] - stats->weight_mean) * ((double)weight[i] - stats->weight_mean);
    stats->weight_std = b->n > 1 ? sqrt(squares / (double)(b->n - 1)) : 0;
    return 0;
}

static int settle(void *self, struct mf_err *err)
{
    struct mf_offline *o = self;
    return mf_engine_settle(o->critics.engine, &o->critics.of.params, &o->critics.of.adam, err);
}

int mf_offline_open(struct mf_offline *o, const struct mf_offline_opts *opts, struct mf_cloning *c, struct mf_err *err)
{
    *o = (struct mf_offline){.opts = *opts, .cloning = c};
    const size_t n = (size_t)c->opts.batch_size;
    int rc = find(&o->kind, opts->weight, err);
    if (rc || !o->kind)
        return rc;
    if ((rc = mf_smdp_read(&o->smdp, &c->windows, opts->gamma, err)) || (rc = open_networks(o, c, err)))
        return rc;
    place(o, &c->policy.spec.net, n, &o->arena);
    if ((rc = mf_arena_alloc(&o->arena, "a minibatch", err)))
        return rc;
    place(o, &c->policy.spec.net, n, &o->arena);
    const bool trains = o->kind->q || o->kind->value;
    o->seam = (struct mf_weighing){.name = o->kind->name,
                                   .self = o,
                                   .weigh = weigh,
                                   .settle = trains ? settle : NULL,
                                   .side = trains ? &o->critics.side : NULL};
    c->weighing = &o->seam;
    return 0;
}

void mf_offline_release(struct mf_offline *o)
{
    mf_sampler_free(o->sampler);
    mf_policy_release(&o->actor);
    mf_critics_release(&o->critics);
    mf_arena_release(&o->arena);
    free(o->smdp);
    *o = (struct mf_offline){.kind = NULL};
}

static void put_mean(struct mf_frame *m, const char *name, double sum, int64_t taken)
{
    if (!isnan(sum))
        mf_frame_set_num(m, name, sum / (double)taken);
}

void mf_offline_report(struct mf_offline *o, const struct mf_weigh_stats *sums, int64_t taken, struct mf_frame *m)
{
    if (!o->kind)
        return;
    put_mean(m, "values.train/critic_loss", sums->critic_loss, taken);
    put_mean(m, "values.train/q_mean", sums->q_mean, taken);
    put_mean(m, "values.train/advantage_mean", sums->advantage_mean, taken);
    put_mean(m, "values.train/weight_mean", sums->weight_mean, taken);
    put_mean(m, "values.train/weight_std", sums->weight_std, taken);
    if (o->alike < 0)
        return;
    o->alike = sums->weight_std / (double)taken < ALIKE_STD ? o->alike + taken : 0;
    if (o->alike < ALIKE)
        return;
    o->alike = -1;
    mf_log(MF_LOG_WARN,
           "all samples of %d minibatches weigh the same: demonstrations of one quality cannot teach clone.weight=%s; "
           "add worse or better ones, or use clone.weight=none",
           ALIKE, o->kind->name);
}

int mf_offline_memory(const struct mf_demos *d, const struct mf_offline_opts *opts, struct mf_cloning *c,
                      struct mf_memory *to, struct mf_err *err)
{
    struct mf_offline o = {.opts = *opts};
    const size_t n = (size_t)c->opts.batch_size;
    int rc = find(&o.kind, opts->weight, err);
    if (rc || !o.kind)
        return rc;
    if ((rc = open_networks(&o, c, err)) == 0) {
        place(&o, &c->policy.spec.net, n, &o.arena);
        to->of[MF_MEMORY_ROWS] += (double)(o.arena.used + d->total * sizeof *o.smdp);
        o.arena = (struct mf_arena){0};
        if (o.critics.engine)
            mf_critics_memory(&o.critics, n, to);
        if (o.sampler) {
            to->of[MF_MEMORY_WEIGHTS] += (double)(o.actor.params.size * sizeof(float));
            mf_sampler_memory(o.sampler, n, to);
        }
    }
    mf_offline_release(&o);
    return rc;
}
