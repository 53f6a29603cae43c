#include "rl/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/mem.h"
#include "flow/checkpoint.h"
#include "flow/frames.h"
#include "flow/grid.h"
#include "ranks/ranks.h"
#include "run/runs.h"
#include "rl/algorithm.h"

/* The schedule of sigma's upper bound is over control steps, that of sde's and cps's level over iterations. */
static void put_noise_in_force(struct mf_trainer *t)
{
    const struct mf_noise_opts *o = &t->noise;
    struct mf_policy *p = &t->policy;
    double low = o->min_std, high;
    if (p->spec.steer == MF_STEER_SAC) { /* its algorithm has set whether it explores */
        low = high = p->noise_high;
    } else if (p->spec.noise_method == MF_FLOW_NOISE) {
        high = mf_noise_level((enum mf_level_schedule)o->decay_type, low, o->max_std,
                              (double)p->global_step / (double)o->decay_steps);
    } else {
        double progress = o->anneal_steps ? (double)p->iter / (double)o->anneal_steps : 0;
        low = high = mf_noise_level(MF_LINEAR, o->noise_end, o->noise_start, progress);
    }
    mf_policy_set_noise(p, low, high);
    mf_policy_digest(p, t->digest);
    t->level[p->version % MF_TRAINER_PAST] = high;
}

static int check_noise(const struct mf_policy_spec *s, const struct mf_noise_opts *o, struct mf_err *err)
{
    if (s->noise_method == MF_FLOW_NOISE && o->min_std > o->max_std)
        return mf_err_set(err, MF_EUSAGE, "policy.min_noise_std=%g is above policy.max_noise_std=%g", o->min_std,
                          o->max_std);
    if (s->noise_method == MF_FLOW_CPS && (o->noise_start > 1 || o->noise_end > 1))
        return mf_err_set(err, MF_EUSAGE,
                          "policy.noise_start=%g, policy.noise_end=%g: the level of flow_cps lies in [0,1]",
                          o->noise_start, o->noise_end);
    return 0;
}

static int open_engine(struct mf_trainer *t, const struct mf_trainer_opts *o, struct mf_err *err)
{
    int rc = mf_engine_open(&t->engine, o->device, (int)o->threads, (enum mf_precision)o->precision, err);
    return rc ? rc : mf_engine_divide(t->engine, (int)o->lanes, o->ranks, err);
}

static int outline_of(struct mf_policy *p, const struct mf_policy_spec *spec, unsigned frozen, bool in_place,
                      const struct mf_trainer_opts *o, struct mf_err *err)
{
    struct mf_loaded *l = NULL;
    int rc = frozen && o->from ? mf_checkpoint_open(&l, o->from, err) : 0;
    rc = rc ? rc : mf_loaded_outline(l, p, spec, frozen, in_place, o->which, err);
    mf_checkpoint_close(l);
    return rc;
}

/* The outline of the policy: with all parameters, also those of an encoder whose output the rollouts may carry. */
static int outline(struct mf_trainer *t, const struct mf_policy_spec *spec, const struct mf_trainer_opts *o,
                   struct mf_err *err)
{
    const unsigned frozen = mf_policy_frozen(spec, o->freeze_encoder);
    int rc = outline_of(&t->policy, spec, frozen, mf_engine_in_host(t->engine), o, err);
    t->spares = rc == 0 && o->frozen && *o->frozen && !strcmp(o->frozen, t->policy.frozen);
    if (rc == 0 && o->encoded)
        t->policy.spec.net = mf_net_encoded(&t->policy.spec.net);
    return rc;
}

int mf_trainer_open(struct mf_trainer *t, const struct mf_policy_spec *spec, const struct mf_trainer_opts *opts,
                    struct mf_err *err)
{
    *t = (struct mf_trainer){.algorithm = opts->algorithm,
                             .noise = opts->noise,
                             .stale.max_lag = opts->max_lag,
                             .leaves = !opts->save_frozen};
    int rc = check_noise(spec, &opts->noise, err);
    if (rc || (rc = open_engine(t, opts, err)) || (rc = outline(t, spec, opts, err)) ||
        (rc = mf_params_alloc(&t->policy.params, err)))
        return rc;
    mf_engine_log(t->engine);
    if ((rc = mf_engine_join(t->engine, err)))
        return rc;
    mf_policy_warn_frozen(&t->policy, opts->freeze_encoder, mf_log_warn);
    mf_policy_fresh(&t->policy, (uint64_t)opts->ppo.seed);
    if ((rc = t->algorithm->open(t, opts, err)))
        return rc;
    put_noise_in_force(t);
    strcpy(t->start, t->digest);
    return 0;
}

int mf_trainer_memory(const struct mf_policy_spec *spec, const struct mf_trainer_opts *opts, size_t n, int served,
                      struct mf_memory *to, struct mf_err *err)
{
    struct mf_trainer t = {.algorithm = opts->algorithm};
    int rc = open_engine(&t, opts, err);
    if (!rc)
        rc = outline(&t, spec, opts, err);
    if (!rc)
        rc = t.algorithm->open(&t, opts, err);
    if (!rc) {
        mf_policy_memory(&t.policy, to);
        rc = t.algorithm->memory(&t, opts, n, to, err);
    }
    /* The next version is encoded in frames of at most 64 MiB and copied into messages, after the rows are freed. */
    const double policy = rc ? 0 : (double)mf_policy_sent(&t.policy, t.spares);
    const double next = 2 * policy + fmin(policy, 64 << 20);
    if (!rc && served)
        to->of[MF_MEMORY_SERVED] += served * policy + fmax(0, next - to->of[MF_MEMORY_ROWS]);
    mf_trainer_release(&t);
    return rc;
}

void mf_trainer_release(struct mf_trainer *t)
{
    if (t->algorithm)
        t->algorithm->close(t);
    mf_policy_release(&t->policy);
    mf_engine_close(t->engine);
    for (int i = 0; i < t->n_states; i++)
        free((void *)(uintptr_t)t->states[i].bytes);
    free(t->states);
    *t = (struct mf_trainer){0};
}

static int keep_state(struct mf_trainer *t, const char *src, const void *bytes, size_t size, struct mf_err *err)
{
    void *copy;
    int i = 0, rc = mf_alloc(&copy, size, "a collector's state", err);
    if (rc)
        return rc;
    memcpy(copy, bytes, size);
    while (i < t->n_states && strcmp(t->states[i].src, src) != 0)
        i++;
    if (i == t->n_states)
        t->states = mf_xrealloc(t->states, (size_t)++t->n_states, sizeof *t->states);
    else
        free((void *)(uintptr_t)t->states[i].bytes);
    t->states[i] = (struct mf_state){.bytes = copy, .size = size};
    snprintf(t->states[i].src, sizeof t->states[i].src, "%s", src);
    return 0;
}

static int resume(struct mf_trainer *t, const struct mf_loaded *l, struct mf_err *err)
{
    const struct mf_state *s;
    const char *start = mf_loaded_extra(l, "start");
    int rc = t->algorithm->load(t, l, true, err);
    snprintf(t->start, sizeof t->start, "%s", start ? start : "");
    for (int i = 0, n = mf_loaded_states(l, &s); rc == 0 && i < n; i++)
        rc = keep_state(t, s[i].src, s[i].bytes, s[i].size, err);
    return rc;
}

int mf_trainer_load(struct mf_trainer *t, const char *path, bool resumes, enum mf_weights which, struct mf_err *err)
{
    struct mf_loaded *l;
    struct mf_policy *p = &t->policy;
    int rc = mf_checkpoint_open(&l, path, err);
    if (rc)
        return rc;
    which = resumes ? MF_WEIGHTS_RAW : which;
    rc = mf_loaded_policy(l, p, which, err);
    t->from_ema = mf_loaded_uses_ema(l, &p->params, which);
    if (rc == 0 && !resumes)
        p->version = p->iter = p->global_step = 0;
    t->known = p->saved = p->version;
    if (rc == 0)
        rc = resumes ? resume(t, l, err) : t->algorithm->load(t, l, false, err);
    const char *before = resumes ? mf_loaded_extra(l, "noise_before") : NULL;
    if (before && t->known > 0)
        t->level[--t->known % MF_TRAINER_PAST] = strtod(before, NULL);
    mf_checkpoint_close(l);
    t->stale.first = t->known;
    if (rc == 0)
        put_noise_in_force(t);
    if (rc == 0 && !resumes)
        strcpy(t->start, t->digest);
    return rc;
}

int mf_trainer_began(struct mf_trainer *t, const char *run, const char *newest, const char *named, const char *was,
                     enum mf_weights which, struct mf_err *err)
{
    char file[MF_PATH_MAX], start[17];
    struct mf_loaded *l;
    struct stat st;
    if (was && !strcmp(named, was) && (stat(named, &st) < 0 || S_ISDIR(st.st_mode)))
        return 0;
    int rc = mf_checkpoint_open(&l, newest, err);
    if (rc)
        return rc;
    const char *began = mf_loaded_extra(l, "start");
    snprintf(start, sizeof start, "%s", began ? began : "");
    mf_checkpoint_close(l);
    if (!*start)
        return 0;
    if ((rc = mf_runs_checkpoint(named, file, err)) || (rc = mf_trainer_load(t, file, false, which, err)))
        return rc;
    return !strcmp(t->start, start)
               ? 0
               : mf_err_set(err, MF_EUSAGE,
                            "%.100s cannot be resumed with policy.checkpoint=%.300s: it started from "
                            "policy.checkpoint=%.300s, with "
                            "other weights; give that one, resume all the same with run.force=true, or start over "
                            "with run.resume=never run.force=true",
                            run, named, was ? was : "null");
}

int mf_trainer_save(struct mf_trainer *t, const char *path, struct mf_err *err)
{
    const int64_t before = t->policy.version - 1;
    struct mf_checkpoint c = {.policy = &t->policy,
                              .kind = t->algorithm->name,
                              .n_states = t->n_states,
                              .states = t->states,
                              .leaves = t->leaves};
    if (t->stale.max_lag && before >= t->known)
        c.before = &t->level[before % MF_TRAINER_PAST];
    int rc = t->algorithm->save(t, path, &c, err);
    t->policy.saved = rc ? t->policy.saved : t->policy.version;
    return rc;
}

int mf_trainer_keep(struct mf_trainer *t, const char *path, struct mf_err *err)
{
    return t->algorithm->keep ? t->algorithm->keep(t, path, err) : 0;
}

double mf_trainer_checkpoint_bytes(const struct mf_trainer *t)
{
    struct mf_policy p = t->policy;
    struct mf_checkpoint c = {.policy = &p, .leaves = t->leaves};
    if (t->algorithm->moments)
        t->algorithm->moments(t, &c);
    return mf_checkpoint_bytes(&c);
}

/* The slices of the parts that are not too old, maybe none; the caller frees the list. */
static int fresh_slices(struct mf_trainer *t, const struct mf_round_part *parts, int n, struct mf_frame ***slices,
                        size_t *count, struct mf_err *err)
{
    for (int i = 0; i < n; i++) {
        const size_t more = (size_t)parts[i].n;
        int rc = more ? mf_staleness_check(&t->stale, &t->policy, t->digest, &parts[i], err) : 1;
        if (rc < 0)
            return rc;
        if (rc)
            continue;
        *slices = mf_xrealloc(*slices, *count + more, sizeof **slices);
        memcpy(*slices + *count, parts[i].slices, more * sizeof **slices);
        *count += more;
    }
    return 0;
}

static unsigned needs(const struct mf_trainer *t)
{
    return t->algorithm->needs ? t->algorithm->needs(t) : 0;
}

static int update(struct mf_trainer *t, struct mf_frame *const *slices, size_t n, struct mf_ppo_stats *stats,
                  struct mf_health *health, int64_t *steps, struct mf_err *err)
{
    struct mf_ranks *ranks = mf_engine_ranks(t->engine);
    struct mf_rows rows = {0};
    double *noise = mf_xcalloc(n, sizeof *noise);
    bool lagged = false;
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        int64_t version = t->policy.version;
        if (mf_frame_has(slices[i], "policy.version"))
            rc = mf_frame_get_int(slices[i], "policy.version", &version, err);
        noise[i] = t->level[version % MF_TRAINER_PAST];
        lagged |= version < t->policy.version;
    }
    if (rc == 0)
        rc = mf_rows_gather(&rows, &t->policy, needs(t), noise, slices, n, err);
    rc = mf_ranks_agree(ranks, rc, err); /* an observation may be here alone */
    rows.lagged = lagged;
    t->torn |= rc == 0;
    if (rc == 0)
        rc = t->algorithm->update(t, &rows, stats, err);
    if (rc == 0 && stats->logratio_gap > 0 && !t->stale.foreign && !stats->lagged)
        mf_log(MF_LOG_WARN,
               "round %lld: log-probabilities differ by %.3g before the first step: if another device sampled it, set "
               "training.recompute_logprobs=true",
               (long long)t->policy.iter, stats->logratio_gap);
    if (rc == 0)
        rc = mf_health_of(health, &rows, &t->policy, stats->entropy, ranks, err);
    *steps = rows.control_steps;
    mf_rows_release(&rows);
    free(noise);
    return rc;
}

int mf_trainer_culprit(const struct mf_trainer *t, const struct mf_round_part *parts, int n, size_t T,
                       struct mf_err *err)
{
    for (int i = 0; i < n; i++) {
        struct mf_staleness as_it_is = t->stale;
        struct mf_err why;
        int rc = parts[i].n ? mf_staleness_check(&as_it_is, &t->policy, t->digest, &parts[i], &why) : 1;
        if (rc == 0)
            rc = mf_rows_check(&t->policy, needs(t), T, parts[i].slices, (size_t)parts[i].n, &why);
        if (rc <= 0)
            rc = mf_ranks_agree(mf_engine_ranks(t->engine), rc, &why);
        if (rc < 0) {
            *err = why;
            return i;
        }
    }
    return -1;
}

int mf_trainer_learn(struct mf_trainer *t, const struct mf_round_part *parts, int n, struct mf_ppo_stats *stats,
                     struct mf_health *health, int64_t *steps, struct mf_err *err)
{
    struct mf_frame **slices = NULL;
    size_t n_slices = 0;
    *stats = mf_ppo_stats_none();
    *health = (struct mf_health){NAN, NAN, NAN};
    *steps = 0;
    const struct mf_staleness before = t->stale;
    int rc = fresh_slices(t, parts, n, &slices, &n_slices, err);
    if (rc == 0 && n_slices)
        rc = update(t, slices, n_slices, stats, health, steps, err);
    if (rc) /* the caller may try again without one of the parts */
        t->stale = before;
    free(slices);
    return rc;
}

int mf_trainer_next(struct mf_trainer *t, const struct mf_round_part *parts, int n, int64_t steps, struct mf_err *err)
{
    int rc = 0;
    t->torn = true;
    t->policy.version++;
    t->policy.iter++;
    t->policy.global_step += steps;
    put_noise_in_force(t);
    for (int i = 0; i < n && rc == 0; i++) {
        const void *state;
        size_t size;
        if (mf_frame_has(parts[i].round, "state") &&
            (rc = mf_frame_get_bin(parts[i].round, "state", &state, &size, err)) == 0)
            rc = keep_state(t, parts[i].src, state, size, err);
    }
    t->torn = rc != 0;
    return rc;
}
