#include "flow/sampler.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dev/device.h"
#include "flow/chain.h"
#include "flow/fpo.h"
#include "flow/grid.h"
#include "flow/latent.h"

struct mf_sampler {
    struct mf_engine *e;
    struct mf_policy *p;
    bool evaluation, noisy; /* noisy: its steps draw noise, and are scored */
    struct mf_graph *g, *value_g;
    struct mf_plan *plan, *value_plan; /* value_plan NULL: no critic */
    struct mf_val obs, noise, eps, coef, time, step, bounds;
    struct mf_fpo fpo;
    struct mf_val fpo_step, unit, explore;
    struct mf_val chain, chosen, last, logprobs, value, encoding;
    struct mf_val value_obs, value_only;
    double low, high;          /* the noise that the plan was set to */
    float *x, *end, *table;    /* rows of normalised observations, of last points, of coefficients */
    struct mf_fpo_draws draws; /* rows of FPO's draws */
    size_t room;               /* rows of the arrays */
    struct mf_arena arena;
};

/* Row k of the values of all K times. */
static struct mf_share one_time(struct mf_graph *g, const struct mf_share *all, int k)
{
    struct mf_share one = {.embed = mf_slice_rows(g, all->embed, k, 1)};
    for (size_t i = 0; i < sizeof one.part / sizeof *one.part; i++)
        if (all->part[i].id)
            one.part[i] = mf_slice_rows(g, all->part[i], k, 1);
    return one;
}

static void score_last(struct mf_sampler *m, struct mf_graph *g, const struct mf_share *obs)
{
    const struct mf_policy_spec *s = &m->p->spec;
    if (s->net.net->step_size)
        m->fpo_step = mf_shared(g, s->fpo_draws, 1);
    mf_fpo_inputs(g, s, &m->fpo);
    m->logprobs = mf_fpo_logprobs(g, s, mf_fpo_elements(g, s, &m->fpo, obs, m->fpo_step, m->last));
}

/* The initial noise: as it is fed, or the latent actor's. With mf-sac it is the fed one until the critics are trained.
 */
static struct mf_val initial(struct mf_sampler *m, struct mf_graph *g, const struct mf_share *obs)
{
    const struct mf_policy_spec *s = &m->p->spec;
    if (!s->steer || !m->evaluation)
        m->noise = mf_input(g, 1, s->net.D);
    if (!s->steer)
        return m->noise;
    const struct mf_steering latent = mf_latent_build(g, s, obs);
    struct mf_val z = mf_latent_noise(g, s, &latent, m->noise);
    if (m->evaluation)
        return z;
    if (s->steer == MF_STEER_SAC) {
        m->explore = mf_shared(g, 1, 3);
        return m->chosen = mf_flow_mean(g, m->noise, z, m->explore, 0);
    }
    m->unit = mf_shared(g, 1, 3);
    m->logprobs = mf_latent_logprobs(g, s, mf_latent_elements(g, &latent, z, m->unit));
    return m->chosen = z;
}

/* All K steps in one graph. Evaluation follows the ODE: no noise, no critic. FPO follows it, too, and scores
 * the last point. */
static void build(struct mf_sampler *m, struct mf_graph *g)
{
    const struct mf_policy_spec *s = &m->p->spec;
    const struct mf_net *net = s->net.net;
    int K = s->K, D = s->net.D;
    struct mf_val x[MF_STEPS_MAX + 1], mean[MF_STEPS_MAX], std[MF_STEPS_MAX];

    m->obs = mf_input(g, 1, s->net.O);
    m->coef = mf_input(g, K, 3);
    m->time = mf_shared(g, K, 1);
    if (net->step_size)
        m->step = mf_shared(g, K, 1);
    if (m->noisy)
        m->eps = mf_input(g, K, D);
    if (m->noisy && s->learned_noise)
        m->bounds = mf_shared(g, 1, 2);

    struct mf_share obs = mf_net_features(g, &s->net, m->obs, false), times = net->time(g, &s->net, m->time, m->step);
    if (net->encode)
        net->encode(g, &s->net, &obs);
    m->encoding = obs.features[0];
    x[0] = initial(m, g, &obs);
    for (int k = 0; k < K; k++) {
        struct mf_val coef = mf_slice_rows(g, m->coef, k, 1);
        struct mf_share time = one_time(g, &times, k);
        float last = k == K - 1 ? s->final_limit : 0, limit = s->mean_limit;
        if (!m->noisy && last > 0 && (limit <= 0 || last < limit))
            limit = last;
        struct mf_chain_step step = mf_chain_step_build(g, s, &obs, &time, x[k], coef, m->bounds, limit);
        mean[k] = x[k + 1] = step.mean;
        std[k] = step.std;
        if (m->noisy)
            x[k + 1] = mf_flow_noise(g, step.mean, step.std, coef, mf_slice_rows(g, m->eps, k, 1), s->noise_clip, last);
    }
    m->last = x[K];
    if (m->evaluation || mf_policy_scores_chain(s))
        m->chain = mf_stack(g, K + 1, x);
    if (m->evaluation)
        return;
    if (mf_policy_is_fpo(s)) {
        score_last(m, g, &obs);
    } else if (mf_policy_scores_chain(s)) {
        struct mf_chain_step steps = {mf_stack(g, K, mean), m->bounds.id ? mf_stack(g, K, std) : MF_NONE};
        m->logprobs = mf_chain_logprobs(g, s, mf_chain_elements(g, m->chain, steps, m->coef), m->chain);
    }
    if (s->n_critic)
        m->value = mf_net_value(g, &s->net, s->n_critic, s->critic, &obs);
}

static int plan(struct mf_sampler *m, struct mf_engine *e, struct mf_err *err)
{
    struct mf_params *ps = &m->p->params;
    const struct mf_policy_spec *s = &m->p->spec;
    m->g = mf_graph_new(ps);
    build(m, m->g);
    int rc = mf_plan_new(&m->plan, e, m->g, &(struct mf_plan_opts){0}, err);
    if (rc || !s->n_critic)
        return rc;
    m->value_g = mf_graph_new(ps);
    m->value_obs = mf_input(m->value_g, 1, s->net.O);
    struct mf_share obs = mf_net_features(m->value_g, &s->net, m->value_obs, false);
    m->value_only = mf_net_value(m->value_g, &s->net, s->n_critic, s->critic, &obs);
    return mf_plan_new(&m->value_plan, e, m->value_g, &(struct mf_plan_opts){0}, err);
}

/* The noise in force: bounds of sigma; or whether mf-sac explores. */
static void set_noise(struct mf_sampler *m)
{
    const struct mf_policy *p = m->p;
    const float explores = p->noise_high > 0;
    mf_chain_step_set(m->plan, p, 0, MF_NONE, MF_NONE, m->bounds);
    if (m->explore.id)
        mf_plan_set(m->plan, m->explore, (float[]){explores, 1 - explores, 0});
    m->low = p->noise_low;
    m->high = p->noise_high;
}

int mf_sampler_new(struct mf_sampler **s, struct mf_engine *e, struct mf_policy *p, bool evaluation, struct mf_err *err)
{
    struct mf_sampler *m = mf_xcalloc(1, sizeof *m);
    *m = (struct mf_sampler){.e = e, .p = p, .evaluation = evaluation};
    m->noisy = !evaluation && p->spec.noise_method != MF_FLOW_ODE;
    int rc = plan(m, e, err);
    if (rc) {
        mf_sampler_free(m);
        return rc;
    }
    mf_chain_step_set(m->plan, p, p->spec.K, m->time, m->step, MF_NONE);
    if (m->fpo.sides.id) {
        mf_fpo_set(m->plan, &m->fpo, &p->spec);
        mf_chain_step_set(m->plan, p, p->spec.fpo_draws, MF_NONE, m->fpo_step, MF_NONE);
    }
    if (m->unit.id)
        mf_latent_set(m->plan, m->unit);
    set_noise(m);
    *s = m;
    return 0;
}

void mf_sampler_free(struct mf_sampler *s)
{
    if (!s)
        return;
    mf_plan_free(s->plan);
    mf_plan_free(s->value_plan);
    mf_graph_free(s->g);
    mf_graph_free(s->value_g);
    mf_arena_release(&s->arena);
    free(s);
}

static void place(struct mf_sampler *m, size_t n, struct mf_arena *a)
{
    const struct mf_net_spec *net = &m->p->spec.net;
    m->x = mf_arena_take(a, n * (size_t)net->O, sizeof *m->x);
    m->end = mf_arena_take(a, n * (size_t)net->D, sizeof *m->end);
    m->table = mf_arena_take(a, n * (size_t)m->p->spec.K * 3, sizeof *m->table);
    if (!m->fpo.noise.id)
        return;
    const size_t M = n * (size_t)m->p->spec.fpo_draws;
    m->draws.noise = mf_arena_take(a, M * (size_t)net->D, sizeof(float));
    m->draws.time = mf_arena_take(a, M, sizeof(float));
    m->draws.coef = mf_arena_take(a, M * 3, sizeof(float));
}

void mf_sampler_memory(const struct mf_sampler *s, size_t n, struct mf_memory *to)
{
    struct mf_sampler counted = *s;
    struct mf_arena arena = {0};
    place(&counted, n, &arena);
    to->of[MF_MEMORY_ROWS] += (double)arena.used;
    mf_engine_memory(s->e, (double)s->p->params.size, to);
    mf_plan_memory(s->plan, n, to);
    if (s->value_plan)
        mf_plan_memory(s->value_plan, n, to);
}

static int make_room(struct mf_sampler *m, size_t n, struct mf_err *err)
{
    if (n <= m->room)
        return 0;
    mf_arena_release(&m->arena);
    m->room = 0;
    place(m, n, &m->arena);
    int rc = mf_arena_alloc(&m->arena, "a sample", err);
    if (rc)
        return rc;
    place(m, n, &m->arena);
    m->room = n;
    return 0;
}

/* One row of coefficients for all samples if they are equal (stride 0), else one for each. */
static int coefficients(struct mf_sampler *m, int n, const int32_t *inds, size_t *stride, struct mf_err *err)
{
    const struct mf_policy_spec *s = &m->p->spec;
    int K = s->K, drawable = s->noise_method == MF_FLOW_CPS ? K - 1 : K;
    bool single = m->noisy && s->denoise == MF_SINGLE;
    *stride = single ? (size_t)K * 3 : 0;
    for (int i = 0; i < (single ? n : 1); i++) {
        int drawn = single ? inds[(size_t)i * (size_t)K] : 0;
        if (single && (drawn < 0 || drawn >= drawable))
            return mf_err_set(err, MF_EUSAGE, "sample %d draws denoising step %d, which is not one of 0..%d", i, drawn,
                              drawable - 1);
        for (int k = 0; k < K; k++)
            mf_flow_coef(s, k, m->p->noise_high, m->noisy && (!single || k == drawn),
                         m->table + (size_t)i * *stride + 3 * k);
    }
    return 0;
}

static void actions_out(const struct mf_sampler *m, int n, float *actions)
{
    const struct mf_policy *p = m->p;
    size_t A = (size_t)p->spec.action_dim, W = (size_t)mf_action_width(&p->spec), C = (size_t)p->spec.n_action_steps;
    for (size_t i = 0; i < (size_t)n; i++) {
        const float *x = m->end + i * (size_t)p->spec.net.D + (size_t)p->spec.action_offset * W;
        for (size_t j = 0; j < C * A; j++)
            actions[i * C * A + j] = (x[j / A * W + j % A] - p->action_offset[j % A]) / p->action_scale[j % A];
    }
}

static void draw(const struct mf_sampler *m, int n, const uint64_t *keys)
{
    const struct mf_policy_spec *s = &m->p->spec;
    const size_t M = (size_t)s->fpo_draws, D = (size_t)s->net.D;
    for (size_t i = 0; i < (size_t)n; i++)
        mf_fpo_draw(
            s, keys[i],
            &(struct mf_fpo_draws){m->draws.noise + i * M * D, m->draws.time + i * M, m->draws.coef + i * M * 3});
}

static void feed(struct mf_feed *to, int *n, struct mf_val input, const float *base, size_t stride)
{
    if (input.id)
        to[(*n)++] = (struct mf_feed){.input = input, .base = base, .stride = stride};
}

/* Values that the graph lacks, or that are not wanted, are left out. */
static void fetch(struct mf_fetch *to, int *n, struct mf_val value, float *base, size_t stride)
{
    if (value.id && base)
        to[(*n)++] = (struct mf_fetch){.value = value, .base = base, .stride = stride};
}

int mf_sampler_run(struct mf_sampler *m, int n, const struct mf_sample *x, struct mf_err *err)
{
    const struct mf_policy *p = m->p;
    size_t K = (size_t)p->spec.K, D = (size_t)p->spec.net.D, O = (size_t)p->spec.net.O, stride = 0;
    int rc = make_room(m, (size_t)n, err) || coefficients(m, n, x->inds, &stride, err) ? err->code : 0;
    if (rc)
        return rc;
    mf_policy_normalize(p, (size_t)n, x->obs, m->x);
    if (m->low != p->noise_low || m->high != p->noise_high)
        set_noise(m);
    if (m->fpo.noise.id)
        draw(m, n, x->draws);
    const size_t M = (size_t)p->spec.fpo_draws;
    struct mf_feed feeds[7];
    struct mf_fetch fetches[7];
    int n_feeds = 0, n_fetches = 0;
    feed(feeds, &n_feeds, m->obs, m->x, O);
    feed(feeds, &n_feeds, m->noise, x->noise, D);
    feed(feeds, &n_feeds, m->coef, m->table, stride);
    feed(feeds, &n_feeds, m->eps, x->eps, K * D);
    feed(feeds, &n_feeds, m->fpo.noise, m->draws.noise, M * D);
    feed(feeds, &n_feeds, m->fpo.time, m->draws.time, M);
    feed(feeds, &n_feeds, m->fpo.coef, m->draws.coef, M * 3);
    fetch(fetches, &n_fetches, m->last, m->end, D);
    fetch(fetches, &n_fetches, m->chosen, x->samples, D);
    fetch(fetches, &n_fetches, m->chain, x->chains, (K + 1) * D);
    fetch(fetches, &n_fetches, m->logprobs, x->logprobs, (size_t)mf_logprob_width(&p->spec));
    fetch(fetches, &n_fetches, m->value, x->values, 1);
    fetch(fetches, &n_fetches, m->encoding, x->encoding,
          m->encoding.id ? (size_t)(mf_rows(m->g, m->encoding) * mf_cols(m->g, m->encoding)) : 0);
    const struct mf_batch batch = {
        .n = (size_t)n, .feed = feeds, .n_feeds = n_feeds, .fetch = fetches, .n_fetches = n_fetches};
    rc = mf_plan_run(m->plan, &batch, err);
    if (rc)
        return rc;
    if (x->samples && !m->chosen.id)
        memcpy(x->samples, m->end, (size_t)n * D * sizeof *m->end);
    actions_out(m, n, x->actions);
    return 0;
}

int mf_sampler_points(struct mf_sampler *m, int n, const float *obs, const float *noise, float *points,
                      struct mf_err *err)
{
    const size_t D = (size_t)m->p->spec.net.D, O = (size_t)m->p->spec.net.O;
    size_t stride;
    int rc = make_room(m, (size_t)n, err) || coefficients(m, n, NULL, &stride, err) ? err->code : 0;
    if (rc)
        return rc;
    const struct mf_feed feed[] = {
        {m->obs, obs, O, false}, {m->noise, noise, D, false}, {m->coef, m->table, stride, false}};
    const struct mf_fetch fetch = {m->last, points, D};
    const struct mf_batch batch = {.n = (size_t)n, .feed = feed, .n_feeds = 3, .fetch = &fetch, .n_fetches = 1};
    return mf_plan_run(m->plan, &batch, err);
}

int mf_sampler_values(struct mf_sampler *m, int n, const float *obs, float *values, struct mf_err *err)
{
    if (!m->value_plan)
        return mf_err_set(err, MF_EUSAGE, "this policy has no critic: policy.critic_hidden is []");
    int rc = make_room(m, (size_t)n, err);
    if (rc)
        return rc;
    mf_policy_normalize(m->p, (size_t)n, obs, m->x);
    struct mf_feed feed = {m->value_obs, m->x, (size_t)m->p->spec.net.O, false};
    struct mf_fetch fetch = {m->value_only, values, 1};
    const struct mf_batch batch = {.n = (size_t)n, .feed = &feed, .n_feeds = 1, .fetch = &fetch, .n_fetches = 1};
    return mf_plan_run(m->value_plan, &batch, err);
}
