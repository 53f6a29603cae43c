/* Frozen groups of pi0.5: the expert's gradients are those of a run that trains all, to the bit, and the rest takes no
 * gradient, moment, average or step; a checkpoint says so, and resumes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device_under_test.h"
#include "flow/checkpoint.h"
#include "flow/checkpoint_priv.h"
#include "flow/grid.h"
#include "flow/optimizer.h"
#include "flow/sampler.h"
#include "flow/score.h"
#include "folder.h"
#include "graph/plan.h"
#include "pi05.h"
#include "run/safetensors.h"

enum { K = 4, ENCODER = 1u << MF_GROUP_ENCODER };

static struct mf_engine *engine;
static struct mf_err err;
static float *observed, chains[B * (K + 1) * D], coef[B * K * 3], logprobs[B];

static struct mf_policy policy_of(unsigned frozen)
{
    struct mf_policy_spec s = pi05_spec();
    struct mf_policy p;
    must(mf_policy_outline(&p, &s, &err), &err);
    mf_params_freeze(&p.params, frozen);
    must(mf_params_alloc(&p.params, &err), &err);
    mf_policy_fresh(&p, 1);
    pi05_load(&p.params);
    mf_policy_set_noise(&p, .5, .5);
    return p;
}

static void sample(struct mf_policy *p)
{
    struct mf_sampler *m;
    float *noise = pi05_read("noise", B * D), *eps = pi05_read("rl/eps", B * K * D), values[B], actions[B * D];
    int32_t inds[B * K];
    for (int i = 0; i < B * K; i++) {
        inds[i] = i % K;
        mf_flow_coef(&p->spec, i % K, p->noise_high, true, coef + 3 * i);
    }
    must(mf_sampler_new(&m, engine, p, false, &err), &err);
    const struct mf_sample x = {.obs = observed,
                                .noise = noise,
                                .eps = eps,
                                .inds = inds,
                                .chains = chains,
                                .logprobs = logprobs,
                                .values = values,
                                .actions = actions};
    must(mf_sampler_run(m, B, &x, &err), &err);
    mf_sampler_free(m);
    free(noise), free(eps);
}

struct learner {
    struct mf_policy policy;
    struct mf_graph *g;
    struct mf_plan *plan;
    struct mf_score s;
    struct mf_optimizer o;
    float again[B];
};

static void learner_open(struct learner *l, unsigned frozen)
{
    *l = (struct learner){.policy = policy_of(frozen)};
    l->g = mf_graph_new(&l->policy.params);
    mf_score_build(l->g, &l->policy, &l->s);
    mf_loss(l->g, l->s.logprobs, -1);
    mf_loss(l->g, l->s.value, 1);
    must(mf_plan_new(&l->plan, engine, l->g, &(struct mf_plan_opts){.tile = B, .backward = true}, &err), &err);
    mf_score_set(l->plan, &l->s, &l->policy);
    const struct mf_optimizer_opts how = {
        .average = true, .weight_decay = .01, .patience = 1, .rate = "rate", .counter = "minibatches"};
    must(mf_optimizer_init(&l->o, engine, &l->policy.params, &how, &err), &err);
}

static void learner_close(struct learner *l)
{
    mf_plan_free(l->plan);
    mf_graph_free(l->g);
    mf_optimizer_release(&l->o);
    mf_policy_release(&l->policy);
}

/* A step, whose gradients are clipped together. */
static double learn(struct learner *l)
{
    const struct mf_feed feed[] = {
        {l->s.obs, observed, O, false}, {l->s.chain, chains, (K + 1) * D, false}, {l->s.coef, coef, 3 * K, false}};
    const struct mf_fetch fetch = {l->s.logprobs, l->again, 1};
    struct mf_step step = {.max_norm = .5, .ema_decay = .9};
    struct mf_verdict v;
    for (int g = 0; g < MF_GROUPS; g++)
        step.lr[g] = 1e-3;
    const struct mf_batch batch = {.n = B, .feed = feed, .n_feeds = 3, .fetch = &fetch, .n_fetches = 1};
    must(mf_optimizer_learn(&l->o, l->plan, &batch, &step, &v, &err), &err);
    must(mf_optimizer_settle(&l->o, &err), &err);
    return v.total;
}

static bool same(const struct mf_params *a, const float *x, const struct mf_params *b, const float *y, int i)
{
    const size_t n = (size_t)a->p[i].rows * (size_t)a->p[i].cols;
    return !memcmp(x + a->p[i].at, y + b->p[i].at, n * sizeof *x);
}

/* The checkpoint of a learner, at a path that the caller unlinks. */
static void save(struct learner *l, const char *path)
{
    const struct mf_checkpoint c = {.policy = &l->policy, .ema = l->o.ema, .adam = &l->o.adam, .kind = "ppo"};
    must(mf_checkpoint_save(path, &c, &err), &err);
}

static void in_a_file(struct learner *l, const char *path)
{
    struct mf_safetensors f;
    struct mf_loaded *open;
    struct learner next;
    int wrong = 0, kept = 0;
    save(l, path);
    must(mf_safetensors_open(&f, path, &err), &err);
    for (int i = 0; i < l->policy.params.n; i++) {
        char name[MF_NAME_MAX + 8];
        const struct mf_param *p = &l->policy.params.p[i];
        snprintf(name, sizeof name, "opt/%s/m", p->name);
        wrong += (mf_safetensors_find(&f, name) != NULL) != mf_param_trained(&l->policy.params, i);
        snprintf(name, sizeof name, "ema/%s", p->name);
        wrong += (mf_safetensors_find(&f, name) != NULL) != (p->group == MF_GROUP_POLICY);
        kept += mf_safetensors_find(&f, p->name) != NULL;
    }
    const char *frozen = mf_safetensors_meta(&f, "frozen");
    ok(!wrong && kept == l->policy.params.n && frozen && !strcmp(frozen, "encoder"),
       "a checkpoint has moments and averages of what was trained alone, and says so");
    mf_safetensors_close(&f);

    learner_open(&next, ENCODER);
    must(mf_checkpoint_open(&open, path, &err), &err);
    must(mf_loaded_policy(open, &next.policy, MF_WEIGHTS_RAW, &err), &err);
    must(mf_optimizer_load(&next.o, open, &err), &err);
    learn(l);
    learn(&next);
    const struct mf_params *ps = &l->policy.params;
    int differ = 0;
    for (int i = 0; i < ps->n; i++)
        differ += mf_has_average(ps, i) && !same(ps, l->o.ema, &next.policy.params, next.o.ema, i);
    ok(!memcmp(ps->value, next.policy.params.value, ps->size * sizeof *ps->value) && differ == 0,
       "it resumes with the bits of a run that was not interrupted");
    must(mf_loaded_policy(open, &next.policy, MF_WEIGHTS_EMA, &err), &err);
    ok(next.policy.params.value[ps->size - 1] == ps->value[ps->size - 1],
       "as averaged weights, the frozen ones are theirs");
    learner_close(&next);
    learner_open(&next, 0);
    ok(mf_optimizer_load(&next.o, open, &err) == MF_EUSAGE && strstr(err.text, "freeze_encoder=true"), "%s", err.text);
    learner_close(&next);
    mf_checkpoint_close(open);
}

int main(void)
{
    struct learner all, expert;
    must(mf_engine_open(&engine, device_under_test(), 2, MF_FP32, &err), &err);
    pi05_open();
    observed = pi05_observations();
    struct mf_policy p = policy_of(ENCODER);
    sample(&p);
    mf_policy_release(&p);

    learner_open(&all, 0);
    learner_open(&expert, ENCODER);
    const struct mf_params *one = &expert.policy.params, *every = &all.policy.params;
    struct mf_policy before = policy_of(ENCODER);
    const double norm = learn(&expert), more = learn(&all);
    const float *few = mf_plan_grads(expert.plan), *grads = mf_plan_grads(all.plan);
    double square = 0;
    int differ = 0, moved = 0, stayed = 0, frozen = 0;
    for (int i = 0; i < one->n; i++) {
        if (!mf_param_trained(one, i)) {
            frozen++;
            stayed += same(one, one->value, &before.params, before.params.value, i);
            continue;
        }
        differ += !same(one, few, every, grads, i);
        moved += !same(one, one->value, &before.params, before.params.value, i);
        for (int j = 0; j < one->p[i].rows * one->p[i].cols; j++)
            square += pow((double)few[one->p[i].at + (size_t)j], 2);
    }
    ok(!memcmp(expert.again, logprobs, sizeof logprobs), "the ratio is exactly 1");
    ok(differ == 0 && moved > 20, "gradients of what is trained have the bits of a run that trains all");
    ok(frozen > 20 && stayed == frozen, "%d frozen parameters keep their bytes", frozen);
    ok(fabs(norm - sqrt(square)) < 1e-9 * norm && more > norm, "the norm is that of the trained ones alone");
    ok(one->trained < every->trained / 2 && one->size == every->size, "%zu of %zu floats have gradients", one->trained,
       every->trained);

    struct mf_memory little = {0}, much = {0};
    mf_plan_memory(expert.plan, B, &little), mf_optimizer_memory(&expert.o, &little);
    mf_plan_memory(all.plan, B, &much), mf_optimizer_memory(&all.o, &much);
    ok(little.of[MF_MEMORY_GRADIENTS] < .6 * much.of[MF_MEMORY_GRADIENTS] &&
           little.of[MF_MEMORY_ACTIVATIONS] < much.of[MF_MEMORY_ACTIVATIONS] &&
           little.of[MF_MEMORY_WEIGHTS] < .7 * much.of[MF_MEMORY_WEIGHTS],
       "the estimated memory is less: gradients %.0f of %.0f KiB, activations %.0f of %.0f, weights %.0f of %.0f",
       little.of[MF_MEMORY_GRADIENTS] / 1024, much.of[MF_MEMORY_GRADIENTS] / 1024,
       little.of[MF_MEMORY_ACTIVATIONS] / 1024, much.of[MF_MEMORY_ACTIVATIONS] / 1024,
       little.of[MF_MEMORY_WEIGHTS] / 1024, much.of[MF_MEMORY_WEIGHTS] / 1024);

    ok(mkdtemp(folder) != NULL, "a folder");
    in_a_file(&expert, in_folder("frozen.safetensors"));
    unlink(in_folder("frozen.safetensors")), rmdir(folder);
    mf_policy_release(&before);
    learner_close(&all);
    learner_close(&expert);
    free(observed);
    pi05_close();
    mf_engine_close(engine);
    return done();
}
