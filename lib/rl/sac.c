/* sac.c - the learner's networks, graphs and files. */
#include "rl/sac.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "flow/latent.h"
#include "flow/ops.h"
#include "nn/mlp.h"
#include "op/ops.h"
#include "rl/sac_priv.h"
#include "run/runs.h"

/* ---- graphs ---- */

static struct mf_qnet critics_of(const struct mf_sac *s, const char *prefix)
{
    struct mf_qnet q = {.prefix = prefix, .n = s->n, .n_hidden = (int)s->opts.critic_hidden.n, .act = MF_ACT_TANH};
    for (int i = 0; i < q.n_hidden; i++)
        q.hidden[i] = (int)s->opts.critic_hidden.v[i];
    return q;
}

static void build_critics(const struct mf_sac *s, struct mf_sac_net *m, struct mf_params *ps, const char *prefix,
                          int width, bool learns)
{
    const struct mf_qnet q = critics_of(s, prefix);
    m->g = mf_graph_new(ps);
    m->obs = mf_input(m->g, 1, s->F);
    m->x = mf_input(m->g, 1, width);
    m->out = mf_qnet(m->g, &q, m->x, m->obs);
    if (!learns)
        return;
    m->y = mf_input(m->g, 1, s->n);
    m->weight = mf_input(m->g, 1, 1);
    m->loss = mf_mse(m->g, m->out, m->y, m->weight);
    mf_loss(m->g, m->loss, .5f * (float)s->n); /* half the sum over critics */
}

static struct mf_steering actor(const struct mf_sac *s, struct mf_sac_net *m)
{
    const struct mf_policy_spec *spec = &s->policy->spec;
    m->obs = mf_input(m->g, 1, s->F);
    m->eps = mf_input(m->g, 1, s->D);
    const struct mf_steering a = mf_latent_of(m->g, spec, m->obs);
    m->logpi = mf_reduce(m->g, mf_latent_logpi(m->g, a.mean, a.std, m->eps), MF_NONE, MF_REDUCE_ALL, 1, 1, 0, 1);
    return a;
}

static void build_pi(struct mf_sac *s, struct mf_sac_net *m)
{
    m->g = mf_graph_new(&s->agent.params);
    const struct mf_steering a = actor(s, m);
    m->out = mf_latent_draw(m->g, a.mean, a.std, m->eps, 1);
}

/* alpha log pi + max_j -Qw_j */
static void build_actor(struct mf_sac *s, struct mf_sac_net *m)
{
    const struct mf_qnet q = critics_of(s, "noise_critic");
    m->g = mf_graph_new(&s->agent.params);
    const struct mf_steering a = actor(s, m);
    m->minus = mf_shared(m->g, 1, 3);
    m->alpha = mf_input(m->g, 1, 1);
    m->weight = mf_input(m->g, 1, 1);
    const struct mf_val values = mf_qnet(m->g, &q, mf_latent_draw(m->g, a.mean, a.std, m->eps, 1), m->obs),
                        negative = mf_flow_mean(m->g, values, values, m->minus, 0);
    m->out = mf_pool(m->g, mf_reshape(m->g, negative, s->n, 1), 1, MF_POOL_MAX);
    mf_loss(m->g, mf_weigh(m->g, m->logpi, m->alpha), 1);
    mf_loss(m->g, mf_weigh(m->g, m->out, m->weight), 1);
}

static void build_summary(struct mf_sac *s, struct mf_sac_net *m)
{
    const struct mf_net_spec *net = &s->policy->spec.net;
    m->g = mf_graph_new(&s->policy->params);
    m->obs = mf_input(m->g, 1, net->O);
    const struct mf_share share = mf_net_features(m->g, net, m->obs, true);
    m->out = mf_net_summary(m->g, net, &share);
    s->F = mf_cols(m->g, m->out);
}

static void build(struct mf_sac *s)
{
    const bool na = s->opts.form == MF_SAC_NA;
    const char *td = na ? "action_critic" : "noise_critic";
    const int width = na ? s->X : s->D;
    build_summary(s, &s->net[MF_SAC_SUMMARY]);
    build_pi(s, &s->net[MF_SAC_PI]);
    build_actor(s, &s->net[MF_SAC_ACTOR]);
    build_critics(s, &s->net[MF_SAC_TD], &s->td->params, td, width, true);
    if (!na)
        return;
    build_critics(s, &s->net[MF_SAC_NOW], &s->td->params, td, width, false);
    build_critics(s, &s->net[MF_SAC_DISTILL], &s->agent.params, "noise_critic", s->D, true);
}

static int compile(struct mf_sac *s, struct mf_err *err)
{
    const bool na = s->opts.form == MF_SAC_NA;
    int rc = 0;
    build_critics(s, &s->net[MF_SAC_TARGET], &s->td->averaged, na ? "action_critic" : "noise_critic", na ? s->X : s->D,
                  false);
    for (int i = 0; rc == 0 && i < MF_SAC_PLANS; i++) {
        struct mf_sac_net *m = &s->net[i];
        const bool backward = i == MF_SAC_ACTOR || i == MF_SAC_TD || i == MF_SAC_DISTILL;
        if (m->g)
            rc = mf_plan_new(&m->plan, s->engine, m->g, &(struct mf_plan_opts){.backward = backward}, err);
    }
    if (rc == 0)
        mf_plan_set(s->net[MF_SAC_ACTOR].plan, s->net[MF_SAC_ACTOR].minus, (float[]){-1, 0, 0});
    return rc;
}

/* The flow alone, between normalised numbers. */
static int open_flow(struct mf_sac *s, struct mf_err *err)
{
    struct mf_policy *p = &s->plain;
    *p = *s->policy;
    p->spec.steer = MF_STEER_NONE;
    p->spec.obs = p->spec.net.obs;
    const size_t features = (size_t)mf_layout_features(&p->spec.obs), n = 2 * (features + (size_t)p->spec.action_dim);
    int rc = mf_alloc((void **)&s->identity, n * sizeof(float), "a normaliser", err);
    if (rc)
        return rc;
    p->obs_scale = s->identity;
    p->obs_offset = p->obs_scale + features;
    p->action_scale = p->obs_offset + features;
    p->action_offset = p->action_scale + p->spec.action_dim;
    mf_policy_plain(p);
    return mf_sampler_new(&s->flow, s->engine, p, true, err);
}

int mf_sac_new(struct mf_sac **out, struct mf_engine *e, struct mf_policy *p, const struct mf_sac_opts *o,
               struct mf_err *err)
{
    const bool outline = !p->params.value;
    if (o->critic_hidden.n < 1 || o->critic_hidden.n > MF_DIMS_MAX)
        return mf_err_set(err, MF_EUSAGE, "sac.critic_hidden needs 1 to %d layers, as [256,256]", MF_DIMS_MAX);
    struct mf_sac *s = *out = mf_xcalloc(1, sizeof *s);
    *s = (struct mf_sac){.engine = e,
                         .policy = p,
                         .opts = *o,
                         .D = p->spec.net.D,
                         .X = p->spec.n_action_steps * p->spec.action_dim,
                         .n = (int)o->n_critics,
                         .log_alpha = log(o->alpha)};
    s->td = o->form == MF_SAC_NA ? &s->critics : &s->agent;
    build(s);
    int rc = mf_learned_open(&s->agent, e, (uint64_t)o->seed, outline, err);
    if (rc == 0 && s->td != &s->agent)
        rc = mf_learned_open(&s->critics, e, (uint64_t)o->seed, outline, err);
    if (rc == 0)
        rc = compile(s, err);
    if (rc == 0)
        rc = open_flow(s, err);
    if (rc == 0 && !outline) {
        mf_sac_start(s);
        rc = mf_replay_init(&s->replay, &p->spec, (size_t)o->replay_decisions, err);
    }
    if (rc) {
        mf_sac_free(s);
        *out = NULL;
    }
    return rc;
}

void mf_sac_free(struct mf_sac *s)
{
    if (!s)
        return;
    for (int i = 0; i < MF_SAC_PLANS; i++)
        mf_plan_free(s->net[i].plan);
    for (int i = 0; i < MF_SAC_PLANS; i++)
        mf_graph_free(s->net[i].g);
    mf_sampler_free(s->flow);
    mf_learned_release(&s->agent);
    mf_learned_release(&s->critics);
    mf_replay_release(&s->replay);
    free(s->identity);
    free(s);
}

void mf_sac_memory(const struct mf_sac *s, size_t n, struct mf_memory *to)
{
    const struct mf_policy_spec *spec = &s->policy->spec;
    const size_t B = (size_t)s->opts.batch_size, minibatch = mf_sac_minibatch(s),
                 copy = mf_replay_memory(spec, n); /* of a round, for its file */
    mf_learned_memory(&s->agent, s->engine, to);
    if (s->td != &s->agent)
        mf_learned_memory(&s->critics, s->engine, to);
    for (int i = 0; i < MF_SAC_PLANS; i++)
        if (s->net[i].plan)
            mf_plan_memory(s->net[i].plan, B, to);
    mf_sampler_memory(s->flow, B, to);
    to->keys[MF_MEMORY_ROWS] = "sac.replay_decisions";
    to->of[MF_MEMORY_ROWS] += (double)(mf_replay_memory(spec, (size_t)s->opts.replay_decisions) +
                                       mf_rows_memory(spec, 0, n, 1) + (minibatch > copy ? minibatch : copy));
}

const struct mf_sac_stats *mf_sac_stats(const struct mf_sac *s)
{
    return &s->stats;
}

bool mf_sac_explores(const struct mf_sac *s)
{
    return s->seen < s->opts.warmup_decisions;
}

/* ---- the actor, in the policy and here ---- */

/* to_policy: the trained actor's values become the policy's, else the other way. */
static void copy_actor(struct mf_sac *s, bool to_policy)
{
    struct mf_params *mine = &s->agent.params, *ps = &s->policy->params;
    for (int i = 0; i < mine->n; i++) {
        const int at = mf_param_find(ps, mine->p[i].name);
        if (at < 0)
            continue;
        float *a = mine->value + mine->p[i].at, *b = ps->value + ps->p[at].at;
        memcpy(to_policy ? b : a, to_policy ? a : b, (size_t)(ps->p[at].rows * ps->p[at].cols) * sizeof *a);
    }
    mf_params_touch(to_policy ? ps : mine);
}

void mf_sac_start(struct mf_sac *s)
{
    copy_actor(s, false);
    memcpy(s->agent.ema, s->agent.params.value, s->agent.params.size * sizeof *s->agent.ema);
    mf_adam_touch(&s->agent.adam);
}

void mf_sac_publish(struct mf_sac *s)
{
    copy_actor(s, true);
}

/* ---- files: FOLDER/state.NNNNNN.safetensors, and the rounds of the replay buffer ---- */

enum { STATES_KEPT = 2 }; /* a run may end between a state and its checkpoint */

static void path_of(char path[MF_PATH_MAX], const char *folder, int64_t version)
{
    snprintf(path, MF_PATH_MAX, "%.900s/state.%06lld.safetensors", folder, (long long)version);
}

static const struct {
    const char *name;
    size_t at;
    bool real;
} facts[] = {
#define FACT(member, real)                                                                                             \
    {                                                                                                                  \
#member, offsetof(struct mf_sac, member), real                                                                 \
    }
    FACT(log_alpha, true),
    FACT(alpha_m, true),
    FACT(alpha_v, true),
    FACT(alpha_steps, false),
    FACT(seen, false),
    FACT(steps, false),
    FACT(distilled, false),
    FACT(replay.total, false),
    FACT(agent.adam.step[MF_GROUP_STEER], false),
    FACT(agent.adam.step[MF_GROUP_CRITIC], false),
    FACT(critics.adam.step[MF_GROUP_CRITIC], false),
};
enum { FACTS = sizeof facts / sizeof *facts, ARRAYS = 8 };

static int arrays_of(const struct mf_sac *s, struct mf_array a[ARRAYS])
{
    mf_learned_arrays(&s->agent, "agent", a);
    if (s->td == &s->agent)
        return 4;
    mf_learned_arrays(&s->critics, "critics", a + 4);
    return ARRAYS;
}

static int64_t save_every(const struct mf_sac *s)
{
    return s->opts.save_every > 1 ? s->opts.save_every : 1;
}

int mf_sac_keep(struct mf_sac *s, const char *folder, int64_t version, struct mf_err *err)
{
    if (s->kept == version)
        return 0;
    int rc = mf_replay_save(&s->replay, folder, version - 1, save_every(s), err);
    s->kept = rc ? s->kept : version;
    return rc;
}

int mf_sac_save(struct mf_sac *s, const char *folder, int64_t version, struct mf_err *err)
{
    char path[MF_PATH_MAX], text[FACTS][32], at[24];
    struct mf_meta meta[FACTS + 1];
    struct mf_array a[ARRAYS];
    int rc = mf_sac_keep(s, folder, version, err);
    for (int i = 0; i < FACTS; i++) {
        const char *p = (const char *)s + facts[i].at;
        if (facts[i].real)
            snprintf(text[i], sizeof text[i], "%.17g", *(const double *)p);
        else
            snprintf(text[i], sizeof text[i], "%" PRId64, *(const int64_t *)p);
        meta[i] = (struct mf_meta){facts[i].name, text[i]};
    }
    snprintf(at, sizeof at, "%" PRId64, version);
    meta[FACTS] = (struct mf_meta){"version", at};
    path_of(path, folder, version);
    const int n = arrays_of(s, a);
    rc = rc ? rc : mf_safetensors_write(path, a, n, meta, FACTS + 1, err);
    const int64_t old = version - STATES_KEPT * save_every(s);
    for (int64_t i = 0; rc == 0 && i < save_every(s); i++) {
        path_of(path, folder, old - i);
        unlink(path);
    }
    return rc;
}

/* Moments may be of any size, but not NaN. */
static int take_array(struct mf_array *to, const void *data, const char *path, struct mf_err *err)
{
    const float *x = memcpy(to->data, data, to->bytes);
    for (size_t i = 0; i < to->count; i++)
        if (!isfinite(x[i]))
            return mf_err_set(err, MF_EFORMAT, "%s: number %zu of %s is %g", path, i, to->name, (double)x[i]);
    return 0;
}

int mf_sac_load(struct mf_sac *s, const char *folder, int64_t version, struct mf_err *err)
{
    char path[MF_PATH_MAX];
    struct mf_safetensors f;
    struct mf_array a[ARRAYS];
    for (int64_t later = version + 1; later <= version + save_every(s); later++) { /* a killed run's */
        path_of(path, folder, later);
        unlink(path);
        strcat(path, ".part");
        unlink(path);
    }
    path_of(path, folder, version);
    int rc = mf_safetensors_open(&f, path, err);
    if (rc)
        return mf_err_at(err, "the state of mf-sac, which a resume needs");
    const char *is = mf_safetensors_meta(&f, "version");
    if (is && strtoll(is, NULL, 10) != version)
        rc = mf_err_set(err, MF_EFORMAT, "%s is the state of version %s, not %" PRId64 ": it was moved or replaced",
                        path, is, version);
    const int n = arrays_of(s, a);
    for (int i = 0; rc == 0 && i < n; i++) {
        const struct mf_array *from = mf_safetensors_find(&f, a[i].name);
        if (!from || from->dtype != MF_F32 || from->count != a[i].count)
            rc = mf_err_set(
                err, MF_EUSAGE,
                "%s has no '%s' of %zu numbers: resume with the sac.form, sac.n_critics, sac.critic_hidden and "
                "policy.steer_hidden of the run",
                path, a[i].name, a[i].count);
        else
            rc = take_array(&a[i], from->data, path, err);
    }
    for (int i = 0; rc == 0 && i < FACTS; i++) {
        const char *text = mf_safetensors_meta(&f, facts[i].name);
        char *p = (char *)s + facts[i].at;
        if (!text)
            rc = mf_err_set(err, MF_EFORMAT, "the metadata of %s lacks %s", path, facts[i].name);
        else if (!facts[i].real)
            *(int64_t *)p = strtoll(text, NULL, 10);
        else if (!isfinite(*(double *)p = strtod(text, NULL)))
            rc = mf_err_set(err, MF_EFORMAT, "the metadata of %s has %s = %.40s", path, facts[i].name, text);
    }
    mf_safetensors_close(&f);
    const int64_t total = s->replay.total;
    s->replay.total = 0;
    mf_learned_touch(&s->agent);
    if (s->td != &s->agent)
        mf_learned_touch(&s->critics);
    return rc ? rc : mf_replay_load(&s->replay, folder, version, total, err);
}
