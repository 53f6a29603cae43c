/* A transformer policy in reinforcement learning and cloning: what was sampled is scored to the bit, whatever the
 * chain, the encoder and the critic, from observations or from what the encoder made of them; what is shared between
 * denoising steps changes nothing; a frozen encoder stays. */
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "flow/cloner.h"
#include "flow/grid.h"
#include "flow/ops.h"
#include "flow/sampler.h"
#include "flow/score.h"
#include "clone_still.h"
#include "device_under_test.h"
#include "policies.h"

enum { N = 5, K = 3, H = 4, A = 2, D = H * A, TO = 2, POINTS = 7, S = 3, C = 2 };

static struct mf_engine *engine;

struct mode {
    const char *name;
    int channels;
    bool pointwise, color;
    enum mf_value_pool pool;
    enum mf_convention convention;
    enum mf_noise_method noise;
    bool learned;
    enum mf_denoise denoise;
    enum mf_objective objective;
};

static const struct mode modes[] = {
    {"joint chain, learned noise", 6, true, true, MF_VALUE_MEAN, MF_NOISE0, MF_FLOW_NOISE, true, MF_JOINT,
     MF_CHAIN_MEAN},
    {"joint steps of an SDE", 6, true, false, MF_VALUE_ATTENTION, MF_NOISE1, MF_FLOW_SDE, false, MF_JOINT,
     MF_STEP_MEAN},
    {"single step of an SDE", 3, false, true, MF_VALUE_SCORE, MF_NOISE1, MF_FLOW_SDE, false, MF_SINGLE, MF_STEP},
    {"single step, learned noise", 6, false, true, MF_VALUE_ATTENTION, MF_NOISE0, MF_FLOW_NOISE, true, MF_SINGLE,
     MF_STEP},
};

static float *draw(uint32_t what, size_t n, float scale)
{
    struct mf_rng rng = mf_rng_at(4, MF_RNG_TEST, what, 0, 0);
    float *x = malloc(n * sizeof *x);
    mf_rng_normal(&rng, x, n);
    for (size_t i = 0; i < n; i++)
        x[i] *= scale;
    return x;
}

/* No weight is zero, as it would be in a fresh network: every path counts. */
static struct mf_policy policy_frozen(const struct mode *m, unsigned frozen)
{
    struct mf_err err;
    struct mf_policy p;
    struct mf_policy_spec s = {.n_obs_steps = TO,
                               .action_dim = A,
                               .horizon = H,
                               .n_action_steps = C,
                               .action_offset = 1,
                               .K = K,
                               .convention = m->convention,
                               .noise_method = m->noise,
                               .learned_noise = m->learned,
                               .denoise = m->denoise,
                               .objective = m->objective,
                               .n_critic = 2,
                               .critic = {12, 9},
                               .n_noise = 2,
                               .noise = {7, 6}};
    s.net = (struct mf_net_spec){.layers = 2,
                                 .heads = 2,
                                 .width = 12,
                                 .encoder_dim = m->pointwise ? 4 : 8,
                                 .time_dim = 8,
                                 .qkv_bias = true,
                                 .qk_norm = m->pointwise,
                                 .legacy_rms = !m->pointwise,
                                 .pointwise = m->pointwise,
                                 .color = m->color,
                                 .value_pool = m->pool};
    mf_layout_add(&s.obs, &(struct mf_obs){.name = "joints", .dim = {S}});
    mf_layout_add(&s.obs, &(struct mf_obs){.name = "cloud", .dim = {POINTS, m->channels}});
    mf_layout_add(&s.obs, &(struct mf_obs){.name = "gripper", .dim = {1}});
    must(mf_net_find(&s.net.net, "ditx", &err), &err);
    must(mf_policy_outline(&p, &s, &err), &err);
    mf_params_freeze(&p.params, frozen);
    must(mf_params_alloc(&p.params, &err), &err);
    mf_policy_fresh(&p, 1);
    float *all = draw(9, p.params.size, .15f), *next = all;
    for (int i = 0; i < p.params.n;
         i++, next += mf_whole_lines((size_t)(p.params.p[i - 1].rows * p.params.p[i - 1].cols)))
        for (int j = 0; j < p.params.p[i].rows * p.params.p[i].cols; j++)
            p.params.value[p.params.p[i].at + (size_t)j] += next[j];
    free(all);
    mf_policy_set_noise(&p, .1, .3);
    mf_params_touch(&p.params);
    return p;
}

static struct mf_policy policy_of(const struct mode *m)
{
    return policy_frozen(m, 0);
}

struct run { /* of the sampler */
    float *obs, *chains, *logprobs, *values, *actions, *encoding;
    int32_t inds[N * K];
};

static struct run sample(struct mf_policy *p)
{
    struct mf_err err;
    struct mf_sampler *m;
    size_t O = (size_t)p->spec.net.O, E = (size_t)mf_logprob_width(&p->spec);
    struct run r = {.obs = draw(1, N * O, 1), .chains = calloc(N * (K + 1) * D, 4), .logprobs = calloc(N * E, 4)};
    r.values = calloc(N, 4), r.actions = calloc(N * C * A, 4);
    for (int i = 0; i < N * K; i++)
        r.inds[i] = p->spec.denoise == MF_JOINT ? i % K : i / K % K;
    float *noise = draw(2, N * D, 1), *eps = draw(3, N * K * D, 1);
    must(mf_sampler_new(&m, engine, p, false, &err), &err);
    struct mf_sample x = {.obs = r.obs, .noise = noise, .eps = eps, .inds = r.inds, .chains = r.chains};
    r.encoding = calloc(N * O, 4);
    x.logprobs = r.logprobs, x.values = r.values, x.actions = r.actions, x.encoding = r.encoding;
    must(mf_sampler_run(m, N, &x, &err), &err);
    float alone[N];
    must(mf_sampler_values(m, N, r.obs, alone, &err), &err);
    ok(!memcmp(alone, r.values, sizeof alone), "values alone are those of the sample");
    mf_sampler_free(m);
    free(noise), free(eps);
    return r;
}

static void run_free(struct run *r)
{
    free(r->obs), free(r->chains), free(r->logprobs), free(r->values), free(r->actions);
    free(r->encoding);
}

/* The network's rows: the observations, or joints and gripper of each step and then its encoding. */
static void rows_of(const struct mf_policy *p, const struct run *r, float *rows)
{
    size_t dim = (size_t)p->spec.obs.dim, code = (size_t)p->spec.net.encoded;
    float *raw = malloc(N * TO * dim * sizeof *raw);
    mf_policy_normalize(p, N, r->obs, raw);
    if (!code)
        memcpy(rows, raw, N * TO * dim * sizeof *raw);
    for (size_t i = 0; code && i < (size_t)(N * TO); i++, rows += S + 1 + code) {
        memcpy(rows, raw + i * dim, S * sizeof *raw);
        rows[S] = raw[(i + 1) * dim - 1];
        memcpy(rows + S + 1, r->encoding + i * code, code * sizeof *raw);
    }
    free(raw);
}

static void norms(const struct mf_params *ps, const float *grads, double norm[MF_GROUPS])
{
    memset(norm, 0, MF_GROUPS * sizeof *norm);
    for (int i = 0; i < ps->n; i++)
        for (int j = 0; mf_param_trained(ps, i) && j < ps->p[i].rows * ps->p[i].cols; j++)
            norm[ps->p[i].group] += pow((double)grads[ps->p[i].at + (size_t)j], 2);
}

/* Score the run's chains, one drawn step each or all; the gradient of value and log-probabilities by group. */
static void score(struct mf_policy *p, const struct run *r, float *logprobs, float *values, float *elements,
                  double norm[MF_GROUPS])
{
    struct mf_err err;
    bool joint = p->spec.denoise == MF_JOINT;
    int k = joint ? K : 1, E = mf_logprob_width(&p->spec);
    size_t O = (size_t)p->spec.net.O;
    struct mf_score s;
    struct mf_plan *plan;
    struct mf_graph *g = mf_graph_new(&p->params);
    mf_score_build(g, p, &s);
    struct mf_val sum = E == 1 ? s.logprobs : mf_reduce(g, s.logprobs, MF_NONE, MF_REDUCE_CHUNK, A, C, 0, 1);
    mf_loss(g, sum, 1);
    mf_loss(g, s.value, 1);
    must(mf_plan_new(&plan, engine, g, &(struct mf_plan_opts){.backward = true}, &err), &err);
    mf_score_set(plan, &s, p);
    float nobs[N * 256], chain[N * (K + 1) * D], coef[N * K * 3], time[N];
    rows_of(p, r, nobs);
    for (int i = 0; i < N; i++) {
        int at = joint ? 0 : r->inds[i * K];
        memcpy(chain + i * (k + 1) * D, r->chains + (i * (K + 1) + at) * D, (size_t)((k + 1) * D) * sizeof *chain);
        for (int j = 0; j < k; j++)
            mf_flow_coef(&p->spec, at + j, p->noise_high, true, coef + (i * k + j) * 3);
        time[i] = (float)mf_flow_time(&p->spec, at);
    }
    struct mf_feed feed[] = {{s.obs, nobs, O, false},
                             {s.chain, chain, (size_t)((k + 1) * D), false},
                             {s.coef, coef, (size_t)(k * 3), false},
                             {s.time, time, 1, false}};
    struct mf_fetch fetch[] = {
        {s.logprobs, logprobs, (size_t)E}, {s.value, values, 1}, {s.elements, elements, (size_t)(k * D)}};
    must(mf_plan_run(plan,
                     &(struct mf_batch){.n = N, .feed = feed, .n_feeds = joint ? 3 : 4, .fetch = fetch, .n_fetches = 3},
                     &err),
         &err);
    norms(&p->params, mf_plan_grads(plan), norm);
    mf_plan_free(plan);
    mf_graph_free(g);
}

static void scored_as_sampled(const struct mode *m)
{
    struct mf_policy p = policy_of(m);
    struct run r = sample(&p);
    size_t E = (size_t)mf_logprob_width(&p.spec);
    float logprobs[N * C * A], values[N], elements[N * K * D];
    double norm[MF_GROUPS], frozen[MF_GROUPS];
    score(&p, &r, logprobs, values, elements, norm);
    ok(!memcmp(logprobs, r.logprobs, N * E * sizeof *logprobs), "%s: log-probabilities have the sample's bits",
       m->name);
    ok(!memcmp(values, r.values, sizeof values), "%s: so have values", m->name);
    ok(norm[MF_GROUP_POLICY] > 0 && norm[MF_GROUP_CRITIC] > 0 && norm[MF_GROUP_ENCODER] > 0 &&
           (norm[MF_GROUP_NOISE] > 0) == m->learned,
       "%s: gradients reach what is trained", m->name);
    mf_policy_release(&p);
    p = policy_frozen(m, 1u << MF_GROUP_ENCODER);
    score(&p, &r, logprobs, values, elements, frozen);
    ok(!memcmp(logprobs, r.logprobs, N * E * sizeof *logprobs) && frozen[MF_GROUP_ENCODER] == 0 &&
           frozen[MF_GROUP_POLICY] == norm[MF_GROUP_POLICY],
       "%s: a frozen encoder gets none, the others the same", m->name);
    p.spec.net = mf_net_encoded(&p.spec.net);
    memset(logprobs, 0, sizeof logprobs), memset(values, 0, sizeof values);
    score(&p, &r, logprobs, values, elements, norm);
    ok(p.spec.net.encoded && p.spec.net.O < TO * p.spec.obs.dim &&
           !memcmp(logprobs, r.logprobs, N * E * sizeof *logprobs) && !memcmp(values, r.values, sizeof values) &&
           !memcmp(norm, frozen, sizeof norm),
       "%s: from the encodings come the same bits, gradients too", m->name);
    run_free(&r);
    mf_policy_release(&p);
}

/* All steps at once over one encoding, against each step by itself. */
static void shared_steps(void)
{
    struct mf_policy p = policy_of(&modes[1]);
    struct run r = sample(&p);
    float logprobs[N * C * A], values[N], all[N * K * D], one[N * D];
    double norm[MF_GROUPS];
    score(&p, &r, logprobs, values, all, norm);
    p.spec.denoise = MF_SINGLE, p.spec.objective = MF_STEP;
    int unlike = 0;
    for (int k = 0; k < K; k++) {
        for (int i = 0; i < N; i++)
            r.inds[i * K] = k;
        score(&p, &r, logprobs, values, one, norm);
        for (int i = 0; i < N; i++)
            unlike += memcmp(one + i * D, all + (i * K + k) * D, D * sizeof *one) != 0;
    }
    ok(unlike == 0, "keys and values shared by all denoising steps: the bits of each step alone");
    run_free(&r);
    mf_policy_release(&p);
}

static void smaller(void)
{
    struct mf_policy p = policy_of(&modes[0]);
    struct mf_net_spec *net = &p.spec.net, e = mf_net_encoded(net);
    ok(e.obs.n == 3 && !strcmp(e.obs.key[1].name, "gripper") && !strcmp(e.obs.key[2].name, "encoding") &&
           e.obs.key[2].dim[0] == POINTS && e.obs.key[2].dim[1] == 4 && e.O == TO * (S + 1 + POINTS * 4),
       "an encoding is the last observation, token by token");
    net->encoder_dim = 6;
    ok(mf_net_encoded(net).encoded == 0 && mf_net_encoded(net).O == net->O,
       "one that is no smaller stands for nothing");
    mf_policy_release(&p);
}

static double clone(struct mf_policy *p, enum mf_clone_loss loss, float dropout, int64_t step, float *ema,
                    double norm[MF_GROUPS])
{
    enum { B = 8 };
    struct mf_err err;
    struct mf_cloner *m;
    double value;
    const float *grads;
    float *obs = draw(5, B * (size_t)p->spec.net.O, 1), *actions = draw(6, B * D, .5f);
    must(mf_cloner_new(&m, engine, p, &(struct mf_clone_opts){loss, MF_TIME_AUTO, dropout, 3, MF_LOSS_ALL}, &err),
         &err);
    must(clone_still(engine, m, p, &(struct mf_clone_batch){step, B, NULL, obs, actions, NULL}, ema, &value, &grads,
                     &err),
         &err);
    norms(&p->params, grads, norm);
    mf_cloner_free(m);
    free(obs), free(actions);
    return value;
}

static void cloning(void)
{
    struct mf_policy p = policy_of(&modes[0]);
    double norm[MF_GROUPS], plain = clone(&p, MF_CLONE_CONSISTENCY, 0, 2, NULL, norm);
    double dropped = clone(&p, MF_CLONE_CONSISTENCY, .3f, 2, NULL, norm);
    ok(norm[MF_GROUP_POLICY] > 0 && norm[MF_GROUP_ENCODER] > 0 && norm[MF_GROUP_CRITIC] == 0,
       "cloning trains the network and its encoder");
    ok(plain != dropped && fabs(plain - dropped) < .5 * plain, "dropout changes the loss, not by much");
    ok(dropped == clone(&p, MF_CLONE_CONSISTENCY, .3f, 2, NULL, norm), "it is a function of seed, step and sample");
    float *ema = malloc(p.params.size * sizeof *ema);
    memcpy(ema, p.params.value, p.params.size * sizeof *ema);
    for (int i = 0; i < p.params.n; i++)
        for (int j = 0; p.params.p[i].group != MF_GROUP_POLICY && j < p.params.p[i].rows * p.params.p[i].cols; j++)
            ema[p.params.p[i].at + (size_t)j] = NAN;
    ok(plain == clone(&p, MF_CLONE_CONSISTENCY, 0, 2, ema, norm), "the teacher uses the encoder that is trained");
    ema[p.params.p[mf_param_find(&p.params, "model.input_emb.bias")].at] += 1;
    ok(plain != clone(&p, MF_CLONE_CONSISTENCY, 0, 2, ema, norm), "and thinks with averaged weights");
    memcpy(ema, p.params.value, p.params.size * sizeof *ema);
    p.spec.target_time = MF_TARGET_ZERO;
    plain = clone(&p, MF_CLONE_CFM, 0, 2, NULL, norm);
    ok(norm[MF_GROUP_ENCODER] > 0 && plain == clone(&p, MF_CLONE_CFM, 0, 2, ema, norm), "cfm trains the encoder, too");
    for (int i = 0; i < p.params.n; i++)
        for (int j = 0; p.params.p[i].group == MF_GROUP_ENCODER && j < p.params.p[i].rows * p.params.p[i].cols; j++)
            ema[p.params.p[i].at + (size_t)j] *= 2;
    ok(plain != clone(&p, MF_CLONE_CFM, 0, 2, ema, norm), "and its teacher uses the averaged encoder");
    free(ema);
    mf_policy_release(&p);
}

int main(void)
{
    struct mf_err err;
    must(mf_engine_open(&engine, device_under_test(), 2, MF_FP32, &err), &err);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        scored_as_sampled(&modes[i]);
    shared_steps();
    smaller();
    cloning();
    mf_engine_close(engine);
    return done();
}
