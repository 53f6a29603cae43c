/* Frozen groups of pi0.5: the expert's gradients are those of a run that trains all, to the bit, and the rest takes no
 * gradient, moment, average or step; a checkpoint says so, and resumes. Frozen bf16 of a file has no copy, and the bits
 * of one. A collector that has the frozen parameters gets the others. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device_under_test.h"
#include "flow/checkpoint.h"
#include "flow/checkpoint_priv.h"
#include "flow/frames.h"
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

static void sample(struct mf_engine *e, struct mf_policy *p)
{
    struct mf_sampler *m;
    float *noise = pi05_read("noise", B * D), *eps = pi05_read("rl/eps", B * K * D), values[B], actions[B * D];
    int32_t inds[B * K];
    for (int i = 0; i < B * K; i++) {
        inds[i] = i % K;
        mf_flow_coef(&p->spec, i % K, p->noise_high, true, coef + 3 * i);
    }
    must(mf_sampler_new(&m, e, p, false, &err), &err);
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

static void learner_of(struct learner *l, struct mf_policy p)
{
    *l = (struct learner){.policy = p};
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

static void learner_open(struct learner *l, unsigned frozen)
{
    learner_of(l, policy_of(frozen));
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

/* ---- bf16 in a file ---- */

static bool is_matrix(const void *self, const struct mf_param *p)
{
    (void)self;
    return p->rows > 1;
}

/* Numbers of a policy, whose matrices are bf16. */
static int give(void *self, const struct mf_array *a, size_t first, size_t n, void *to, struct mf_err *e)
{
    const struct mf_params *ps = self;
    const float *from = ps->value + ps->p[mf_param_find(ps, a->name)].at + first;
    (void)e;
    for (size_t i = 0; i < n; i++)
        if (a->dtype == MF_F32)
            memcpy((char *)to + 4 * i, from + i, 4);
        else
            memcpy((char *)to + 2 * i, (const char *)(from + i) + 2, 2);
    return 0;
}

static void halve(const char *path)
{
    struct mf_policy p = policy_of(0);
    const struct mf_origin origin = {give, &p.params};
    const struct mf_checkpoint c = {.policy = &p, .origin = &origin, .bf16 = is_matrix, .kind = "ppo"};
    must(mf_checkpoint_save(path, &c, &err), &err);
    mf_policy_release(&p);
}

static struct mf_policy load(struct mf_engine *e, const char *path, unsigned frozen, bool in_place)
{
    struct mf_policy_spec s = pi05_spec();
    struct mf_policy p;
    struct mf_loaded *l;
    must(mf_checkpoint_open(&l, path, &err), &err);
    must(mf_loaded_outline(l, &p, &s, frozen, in_place && mf_engine_in_host(e), MF_WEIGHTS_AUTO, &err), &err);
    must(mf_params_alloc(&p.params, &err), &err);
    must(mf_loaded_policy(l, &p, MF_WEIGHTS_AUTO, &err), &err);
    mf_checkpoint_close(l);
    return p;
}

static void in_place(struct mf_engine *e, const char *device, const char *path)
{
    static float first[sizeof chains / sizeof *chains];
    char one[17], two[17];
    struct mf_policy copied = load(e, path, ~0u, false), there = load(e, path, ~0u, true);
    struct mf_memory much = {0}, little = {0};
    sample(e, &copied);
    memcpy(first, chains, sizeof first);
    memset(chains, 0, sizeof chains);
    sample(e, &there);
    ok(!memcmp(first, chains, sizeof first), "%s: matrices that stay bf16 in their file give the bits of float copies",
       device);
    mf_policy_digest(&copied, one), mf_policy_digest(&there, two);
    mf_policy_memory(&copied, &much), mf_policy_memory(&there, &little);
    ok(!strcmp(one, two) &&
           (!mf_engine_in_host(e) || (there.params.size < copied.params.size / 20 && little.of[0] < .6 * much.of[0])),
       "%s: the policy is the same, and takes %zu floats instead of %zu", device, there.params.size,
       copied.params.size);
    mf_policy_release(&copied);
    mf_policy_release(&there);
}

static void trained_in_place(const char *path)
{
    struct learner copied, there;
    learner_of(&copied, load(engine, path, ENCODER, false));
    learner_of(&there, load(engine, path, ENCODER, true));
    sample(engine, &there.policy);
    for (int i = 0; i < 2; i++) {
        learn(&copied), learn(&there);
        if (i == 0)
            ok(!memcmp(there.again, logprobs, sizeof logprobs), "the ratio is 1 on frozen bf16");
    }
    ok(!memcmp(copied.policy.params.value, there.policy.params.value, there.policy.params.trained * sizeof(float)),
       "the expert learns the same on them");
    learner_close(&copied);
    learner_close(&there);
}

struct sent {
    void **part;
    size_t *size, bytes;
    int n;
};

static struct sent sent(const struct mf_policy *p, bool leaves)
{
    struct sent s = {0};
    must(mf_policy_encode(p, leaves, &s.part, &s.size, &s.n, &err), &err);
    for (int i = 0; i < s.n; i++)
        s.bytes += s.size[i];
    return s;
}

static int received(struct mf_policy *p, const struct sent *s)
{
    return mf_policy_decode(p, (const void *const *)s->part, s->size, s->n, &err);
}

/* From a learner to a collector, which has the frozen parameters from the file. */
static void sent_without(const char *path)
{
    struct mf_policy learner = load(engine, path, ENCODER, true), collector = load(engine, path, ENCODER, true),
                     copied = load(engine, path, ENCODER, false), fresh = policy_of(ENCODER);
    char one[17], two[17];
    learner.version = 3;
    for (size_t i = 0; i < learner.params.trained; i++)
        learner.params.value[i] *= 1.5f;
    mf_policy_digest(&learner, one);
    const struct sent whole = sent(&learner, false), less = sent(&learner, true);
    int rc = received(&collector, &less);
    mf_policy_digest(&collector, two);
    ok(rc == 0 && collector.version == 3 && !strcmp(one, two), "the trained parameters make it the learner's policy");
    ok(less.bytes < whole.bytes / 2 && less.bytes > mf_policy_sent(&learner, true) &&
           whole.bytes > mf_policy_sent(&learner, false),
       "%zu bytes instead of %zu", less.bytes, whole.bytes);
    rc = received(&copied, &less);
    mf_policy_digest(&copied, two);
    ok(rc == 0 && !strcmp(one, two) && !strcmp(copied.frozen, learner.frozen), "also one that has float copies");
    ok(received(&collector, &whole) == 0, "all of them are the same");
    ok(received(&fresh, &less) == MF_EUSAGE && strstr(err.text, "there are none here"), "%s", err.text);
    mf_policy_drop(whole.part, whole.size, whole.n);
    mf_policy_drop(less.part, less.size, less.n);

    int matrix = 0;
    while (!collector.params.p[matrix].bf16)
        matrix++;
    copied.params.value[copied.params.p[matrix].at] += 1;
    const struct sent other = sent(&copied, false);
    ok(received(&collector, &other) == MF_EUSAGE && strstr(err.text, "which is used frozen"), "%s", err.text);
    mf_policy_drop(other.part, other.size, other.n);
    mf_policy_release(&learner), mf_policy_release(&collector);
    mf_policy_release(&copied), mf_policy_release(&fresh);
}

int main(void)
{
    struct learner all, expert;
    must(mf_engine_open(&engine, device_under_test(), 2, MF_FP32, &err), &err);
    pi05_open();
    observed = pi05_observations();
    struct mf_policy p = policy_of(ENCODER);
    sample(engine, &p);
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
    unlink(in_folder("frozen.safetensors"));
    halve(in_folder("half.safetensors"));
    in_place(engine, device_under_test(), in_folder("half.safetensors"));
    struct mf_engine *ref;
    must(mf_engine_open(&ref, "ref", 2, MF_FP32, &err), &err);
    in_place(ref, "ref", in_folder("half.safetensors"));
    mf_engine_close(ref);
    trained_in_place(in_folder("half.safetensors"));
    sent_without(in_folder("half.safetensors"));
    unlink(in_folder("half.safetensors")), rmdir(folder);
    mf_policy_release(&before);
    learner_close(&all);
    learner_close(&expert);
    free(observed);
    pi05_close();
    mf_engine_close(engine);
    return done();
}
