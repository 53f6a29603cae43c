#include "flow/cloning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flow/checkpoint.h"
#include "flow/frames.h"
#include "flow/spec.h"

#define BIND(key, field)                                                                                               \
    {                                                                                                                  \
        key, offsetof(struct mf_cloning_opts, field)                                                                   \
    }
const struct mf_bind mf_cloning_binds[] = {
    BIND("device", device),
    BIND("threads", threads),
    BIND("lanes", lanes),
    BIND("precision", precision),
    BIND("run.seed", seed),
    BIND("clone.loss", loss),
    BIND("clone.time_sampling", time_sampling),
    BIND("clone.loss_dims", loss_dims),
    BIND("clone.attention_dropout", dropout),
    BIND("clone.steps", steps),
    BIND("clone.batch_size", batch_size),
    BIND("clone.warmup_steps", warmup),
    BIND("clone.learning_rate", learning_rate),
    BIND("clone.weight_decay", weight_decay),
    BIND("clone.ema_decay", ema_decay),
    BIND("clone.ema_power", ema_power),
    BIND("clone.ema_max", ema_max),
    BIND("clone.pad_before", pad_before),
    BIND("clone.pad_after", pad_after),
    BIND("clone.shift", shift),
    BIND("clone.augment", augmentation),
    BIND("clone.normalizer", normalizer),
    BIND("clone.range_floor", range_floor),
    BIND("clone.normalize_actions", normalize_actions),
    BIND("training.freeze_encoder", freeze_encoder),
    BIND("training.save_frozen", save_frozen),
    {0},
};

/* ---- setting up ---- */

/* The engine, and the outline of a policy. */
static int outline(struct mf_cloning *c, const struct mf_policy_spec *spec, const struct mf_loaded *start,
                   enum mf_weights which, struct mf_err *err)
{
    const struct mf_cloning_opts *o = &c->opts;
    const unsigned frozen = mf_policy_frozen(spec, o->freeze_encoder);
    int rc = mf_engine_open(&c->engine, o->device, (int)o->threads, (enum mf_precision)o->precision, err);
    rc = rc ? rc : mf_engine_divide(c->engine, (int)o->lanes, o->ranks, err);
    return rc ? rc : mf_loaded_outline(start, &c->policy, spec, frozen, mf_engine_in_host(c->engine), which, err);
}

/* Cloner and optimiser of the policy; outlines if the policy is one. */
static int open_learner(struct mf_cloning *c, struct mf_err *err)
{
    const struct mf_cloning_opts *o = &c->opts;
    const struct mf_clone_opts loss = {.loss = (enum mf_clone_loss)o->loss,
                                       .sampling = (enum mf_time_sampling)o->time_sampling,
                                       .dropout = (float)o->dropout,
                                       .dims = (enum mf_loss_dims)o->loss_dims,
                                       .seed = (uint64_t)o->seed};
    const struct mf_optimizer_opts optimizer = {.average = true,
                                                .weight_decay = o->weight_decay,
                                                .patience = 1,
                                                .rate = "clone.learning_rate",
                                                .counter = "clone_step"};
    int rc = mf_cloner_new(&c->cloner, c->engine, &c->policy, &loss, err);
    return rc ? rc : mf_optimizer_init(&c->optimizer, c->engine, &c->policy.params, &optimizer, err);
}

static void place(struct mf_cloning *c, struct mf_arena *a)
{
    const size_t n = (size_t)c->opts.batch_size;
    c->obs = mf_arena_take(a, n * (size_t)c->policy.spec.net.O, sizeof *c->obs);
    c->actions = mf_arena_take(a, n * (size_t)c->policy.spec.net.D, sizeof *c->actions);
    c->weight = mf_arena_take(a, n, sizeof *c->weight);
}

int mf_cloning_inherits(const struct mf_conf *conf, struct mf_conf *record, struct mf_err *err)
{
    static const char *const key[] = {"clone.normalizer", "clone.range_floor", "clone.normalize_actions"};
    for (int i = 0; i < 3; i++) {
        if (mf_conf_is_word(conf, key[i]))
            return mf_err_set(err, MF_EUSAGE,
                              "%s=%s is for fresh weights, and the policy of policy.checkpoint keeps its normaliser: "
                              "leave one of them out",
                              key[i], mf_conf_text(conf, key[i]));
        mf_conf_omit(record, key[i]);
    }
    return 0;
}

/* A checkpoint's weights and normaliser, and none of its counts. */
static int start_from(struct mf_cloning *c, const struct mf_loaded *l, enum mf_weights which, struct mf_err *err)
{
    int rc = mf_loaded_policy(l, &c->policy, which, err);
    c->policy.version = c->policy.iter = c->policy.global_step = 0;
    if (rc == 0)
        mf_policy_digest(&c->policy, c->start);
    return rc;
}

int mf_cloning_open(struct mf_cloning *c, const struct mf_policy_spec *spec, const struct mf_loaded *start,
                    enum mf_weights which, struct mf_demos *d, const struct mf_cloning_opts *opts,
                    void (*progress)(void *arg, size_t done, size_t of), void *arg, struct mf_err *err)
{
    const struct mf_fit fit = {(enum mf_normalizer)opts->normalizer, opts->range_floor, opts->normalize_actions,
                               progress, arg};
    *c = (struct mf_cloning){.opts = *opts, .read = -1};
    int rc = outline(c, spec, start, which, err);
    if (rc || (rc = mf_params_alloc(&c->policy.params, err)))
        return rc;
    mf_policy_fresh(&c->policy, (uint64_t)opts->seed);
    if ((rc = mf_dataset_check(spec, d, err)) ||
        (rc = start ? start_from(c, start, which, err) : mf_dataset_fit(&c->policy, d, &fit, err)) ||
        (rc = mf_dataset_open(&c->windows, &c->policy, d, opts->pad_before, opts->pad_after, (int)opts->shift,
                              (enum mf_augmentation)opts->augmentation, (size_t)opts->batch_size, err)) ||
        (rc = open_learner(c, err)))
        return rc;
    mf_engine_log(c->engine);
    place(c, &c->arena);
    if ((rc = mf_engine_join(c->engine, err)) || (rc = mf_arena_alloc(&c->arena, "a minibatch", err)))
        return rc;
    place(c, &c->arena);
    return 0;
}

void mf_cloning_release(struct mf_cloning *c)
{
    mf_cloner_free(c->cloner);
    mf_optimizer_release(&c->optimizer);
    mf_dataset_close(&c->windows);
    mf_policy_release(&c->policy);
    mf_engine_close(c->engine);
    mf_arena_release(&c->arena);
    *c = (struct mf_cloning){.engine = NULL};
}

int mf_cloning_outline(struct mf_cloning *c, const struct mf_policy_spec *spec, const struct mf_loaded *start,
                       enum mf_weights which, const struct mf_cloning_opts *opts, struct mf_err *err)
{
    *c = (struct mf_cloning){.opts = *opts};
    int rc = outline(c, spec, start, which, err);
    return rc ? rc : open_learner(c, err);
}

void mf_cloning_memory(struct mf_cloning *c, const struct mf_demos *d, struct mf_memory *to)
{
    const size_t n = (size_t)c->opts.batch_size;
    struct mf_arena rows = {0};
    place(c, &rows);
    to->of[MF_MEMORY_ROWS] += (double)(rows.used + mf_dataset_memory(d, n));
    mf_policy_memory(&c->policy, to);
    mf_optimizer_memory(&c->optimizer, to);
    mf_cloner_memory(c->cloner, n, to);
}

/* ---- training ---- */

static double learning_rate(const struct mf_cloning_opts *o, int64_t step)
{
    if (step < o->warmup)
        return o->learning_rate * (double)(step + 1) / (double)o->warmup;
    return o->learning_rate * mf_lr_factor(MF_LR_COSINE, (double)(step - o->warmup), (double)(o->steps - o->warmup));
}

static struct mf_clone_batch batch_at(const struct mf_cloning *c, int64_t at)
{
    return (struct mf_clone_batch){.step = at,
                                   .n = (size_t)c->opts.batch_size,
                                   .obs = c->obs,
                                   .actions = c->actions,
                                   .weight = c->weighing ? c->weight : NULL};
}

/* Minibatch `at`, with its noises and times. */
static int read_batch(struct mf_cloning *c, int64_t at, struct mf_err *err)
{
    const size_t n = (size_t)c->opts.batch_size;
    const struct mf_clone_batch batch = batch_at(c, at);
    const uint32_t *drawn = mf_dataset_draw(&c->windows, (uint64_t)c->opts.seed, at, n);
    int rc = mf_dataset_batch(&c->windows, n, drawn, c->obs, c->actions, err);
    if (rc == 0)
        rc = mf_cloner_draw(c->cloner, &batch, err);
    c->read = rc ? -1 : at;
    return rc;
}

/* Weighs the minibatch that was read last. */
static int weigh(struct mf_cloning *c, int64_t at, struct mf_weigh_stats *sum, struct mf_err *err)
{
    const struct mf_weighing *w = c->weighing;
    const struct mf_weigh_batch batch = {
        .step = at, .n = (size_t)c->opts.batch_size, .sample = c->windows.batch, .obs = c->obs, .actions = c->actions};
    struct mf_weigh_stats s;
    int rc = w ? w->weigh(w->self, &batch, c->weight, &s, err) : 0;
    if (rc || !w)
        return rc;
    sum->critic_loss += s.critic_loss;
    sum->q_mean += s.q_mean;
    sum->advantage_mean += s.advantage_mean;
    sum->weight_mean += s.weight_mean;
    sum->weight_std += s.weight_std;
    return 0;
}

int mf_cloning_step(struct mf_cloning *c, struct mf_cloning_stats *stats, struct mf_err *err)
{
    const struct mf_cloning_opts *o = &c->opts;
    const int64_t at = c->optimizer.minibatches;
    const double lr = learning_rate(o, at);
    const struct mf_step step = {.lr = {[MF_GROUP_POLICY] = lr, [MF_GROUP_ENCODER] = lr},
                                 .ema_decay =
                                     o->ema_decay > 0 ? o->ema_decay : mf_ema_decay(at, 1, o->ema_power, o->ema_max),
                                 .first = true};
    const struct mf_clone_batch batch = batch_at(c, at);
    struct mf_verdict v;
    struct mf_err later;
    double loss;
    int rc = c->read == at ? 0 : read_batch(c, at, err);
    if (rc || (rc = weigh(c, at, &stats->weighing, err)) ||
        (rc = mf_cloner_start(c->cloner, &batch, &c->optimizer, &step, &v, err)))
        return rc;
    if (at + 1 < o->steps) /* while the device computes; a failure returns when the minibatch is next */
        read_batch(c, at + 1, &later);
    if ((rc = mf_cloner_finish(c->cloner, &c->optimizer, &loss, &v, err)))
        return rc;
    stats->loss += loss;
    stats->grad_norm += v.total;
    stats->lr = lr;
    return 0;
}

/* ---- the checkpoint ---- */

static void add_extra(struct mf_checkpoint *file, const char *extra[][2], const char *key, const char *text)
{
    extra[file->n_extra][0] = key;
    extra[file->n_extra++][1] = text;
}

int mf_cloning_save(struct mf_cloning *c, const char *path, struct mf_err *err)
{
    struct mf_optimizer *o = &c->optimizer;
    char step[32], samples[32], seed[32];
    const struct mf_weighing *w = c->weighing;
    int rc = mf_optimizer_settle(o, err);
    rc = rc || !w || !w->side ? rc : w->settle(w->self, err);
    if (rc)
        return rc;
    snprintf(step, sizeof step, "%lld", (long long)o->minibatches);
    snprintf(samples, sizeof samples, "%zu", c->windows.n);
    snprintf(seed, sizeof seed, "%lld", (long long)c->opts.seed);
    const char *extra[5][2] = {{"clone_samples", samples}, {o->opts.counter, step}, {"seed", seed}};
    struct mf_checkpoint file = {.policy = &c->policy,
                                 .ema = o->ema,
                                 .adam = &o->adam,
                                 .side = w ? w->side : NULL,
                                 .leaves = !c->opts.save_frozen,
                                 .kind = "clone",
                                 .n_extra = 3,
                                 .extra = extra};
    if (*c->start)
        add_extra(&file, extra, "start", c->start);
    if (w)
        add_extra(&file, extra, "weight", w->name);
    return mf_checkpoint_save(path, &file, err);
}

double mf_cloning_checkpoint_bytes(const struct mf_cloning *c)
{
    struct mf_policy p = c->policy;
    const struct mf_optimizer *o = &c->optimizer;
    return mf_checkpoint_bytes(&(struct mf_checkpoint){.policy = &p,
                                                       .ema = o->ema,
                                                       .adam = &o->adam,
                                                       .side = c->weighing ? c->weighing->side : NULL,
                                                       .leaves = !c->opts.save_frozen});
}

static int same_run(const struct mf_cloning *c, const struct mf_loaded *l, const char *path, struct mf_err *err)
{
    const char *samples = mf_loaded_extra(l, "clone_samples"), *seed = mf_loaded_extra(l, "seed"),
               *start = mf_loaded_extra(l, "start"), *weight = mf_loaded_extra(l, "weight"),
               *now = c->weighing ? c->weighing->name : "none";
    if (!samples || strtoull(samples, NULL, 10) != c->windows.n)
        return mf_err_set(err, MF_EUSAGE, "%s was trained on %s samples, and clone.dataset has %zu", path,
                          samples ? samples : "other", c->windows.n);
    if (!seed || strtoll(seed, NULL, 10) != c->opts.seed)
        return mf_err_set(err, MF_EUSAGE, "%s was started with run.seed=%s, not %lld", path, seed ? seed : "?",
                          (long long)c->opts.seed);
    if (strcmp(start ? start : "", c->start) != 0)
        return mf_err_set(err, MF_EUSAGE, "%s started from %s: give the policy.checkpoint of its start", path,
                          start ? "other weights" : "fresh weights, without policy.checkpoint");
    if (strcmp(weight ? weight : "none", now) != 0)
        return mf_err_set(err, MF_EUSAGE, "%s was trained with clone.weight=%s, not %s", path, weight ? weight : "none",
                          now);
    return mf_policy_spec_agree(mf_loaded_spec(l), path, &c->policy.spec, "the configuration", err);
}

int mf_cloning_load(struct mf_cloning *c, const char *path, struct mf_err *err)
{
    struct mf_loaded *l;
    int rc = mf_checkpoint_open(&l, path, err);
    if (rc)
        return rc;
    if ((rc = same_run(c, l, path, err)) == 0 && (rc = mf_loaded_policy(l, &c->policy, MF_WEIGHTS_RAW, err)) == 0)
        rc = mf_optimizer_load(&c->optimizer, l, err);
    if (rc == 0 && c->weighing && c->weighing->side)
        rc = mf_loaded_side(l, c->weighing->side, err);
    mf_checkpoint_close(l);
    return rc;
}
