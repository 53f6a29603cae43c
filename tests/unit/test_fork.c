/* A checkpoint of ManiFlow's RL fork (tests/reference/fork.py, NumPy) does here what it did there: its observations and
 * its normaliser come from the file, time runs from noise at 1, and the second time embedding gets 0. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "fixture.h"
#include "policies.h"
#include "flow/checkpoint.h"
#include "flow/grid.h"
#include "flow/sampler.h"
#include "flow/score.h"
#include "import/import_in.h"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

enum { N = 3, K = 4, C = 2 };

static const char file[] = "tests/fixtures/fork.pt";
static char to[] = "/tmp/mf-fork-XXXXXX";
static struct mf_engine *engine;
static struct fixture fixture;

static int import(const char *from, const char *const *words, struct mf_policy_spec *spec, struct mf_err *err)
{
    struct mf_names keys;
    static const struct mf_bind table[] = {{"policy.obs_keys", 0}, {0}};
    struct mf_conf *conf = mf_conf_new();
    struct mf_import_in in = {.keys = &keys, .conf = conf};
    struct mf_sources sources = {.word = words};
    struct mf_import im;
    while (words[sources.n_words])
        sources.n_words++;
    must(mf_conf_load(conf, &sources, err), err);
    must(mf_conf_bind(conf, table, &keys, err), err);
    int rc = mf_import_open(&im, from, err);
    if (rc == 0) {
        rc = mf_import_in(&im, &in, to, spec, err);
        mf_import_close(&im);
    }
    mf_conf_free(conf);
    return rc;
}

static void is(const char *name, const float *got, size_t n)
{
    size_t there;
    double far = 0;
    float *want = fixture_find(&fixture, name, &there);
    for (size_t i = 0; want && i < n; i++)
        far = worse(far, fabs((double)got[i] - (double)want[i]) / (1 + fabs((double)want[i])));
    ok(want && there == n && far < 1e-5, "%s are the fork's, within %.1e", name, far);
    free(want);
}

static void described(void)
{
    struct mf_policy_spec s;
    struct mf_err err = {0};
    ok(import(file, WORDS(NULL), &s, &err) == 0, "the file has the whole policy, without an environment %s", err.text);
    ok(s.convention == MF_NOISE1 && s.target_time == MF_TARGET_ZERO, "noise lies at t = 1, the second time is 0");
    ok(s.action_dim == 3 && s.horizon == 4 && s.n_obs_steps == 2 && s.K == K && s.n_action_steps == C,
       "actions, horizon, and the settings of its configuration");
    ok(s.obs.n == 4 && s.obs.dim == 36 + 9 && !strcmp(s.obs.key[0].name, "point_cloud") && s.obs.key[0].dim[0] == 12 &&
           !strcmp(s.obs.key[1].name, "robot0_eef_pos") && s.obs.key[1].dim[0] == 3 &&
           !strcmp(s.obs.key[2].name, "robot0_eef_quat") && s.obs.key[2].dim[0] == 4 &&
           !strcmp(s.obs.key[3].name, "robot0_gripper_qpos") && s.obs.key[3].dim[0] == 2,
       "observations, by their names, in the state's order");
    ok(import(file, WORDS("policy.convention=noise0"), &s, &err) == MF_EUSAGE &&
           strstr(err.text, "policy.convention=noise0 contradicts"),
       "%s", err.text);
    ok(import(file, WORDS("policy.target_time=step"), &s, &err) == MF_EUSAGE &&
           strstr(err.text, "policy.target_time=step contradicts"),
       "%s", err.text);
    ok(import(file, WORDS("policy.obs_keys=[robot0_gripper_qpos,robot0_eef_pos,point_cloud,robot0_eef_quat]"), &s,
              &err) == 0 &&
           !strcmp(s.obs.key[0].name, "robot0_gripper_qpos") && s.obs.key[0].dim[0] == 2 &&
           !strcmp(s.obs.key[2].name, "point_cloud"),
       "policy.obs_keys say another order %s", err.text);
    ok(import(file, WORDS("policy.obs_keys=[robot0_eef_pos,point_cloud]"), &s, &err) == MF_EUSAGE &&
           strstr(err.text, "9 low-dimensional numbers"),
       "%s", err.text);
}

static struct mf_policy policy(const char *const *words)
{
    struct mf_policy_spec s;
    struct mf_policy p;
    struct mf_loaded *l;
    struct mf_err err;
    must(import(file, words, &s, &err), &err);
    must(mf_checkpoint_open(&l, to, &err), &err);
    must(mf_policy_init(&p, mf_loaded_spec(l), &err), &err);
    must(mf_loaded_policy(l, &p, MF_WEIGHTS_AUTO, &err), &err);
    ok(mf_loaded_spec(l)->target_time == MF_TARGET_ZERO && mf_loaded_spec(l)->convention == MF_NOISE1,
       "the checkpoint keeps both");
    mf_checkpoint_close(l);
    mf_policy_set_noise(&p, .5, .5);
    return p;
}

static void sample(struct mf_policy *p, bool evaluation, const int32_t *inds, struct mf_sample x)
{
    struct mf_sampler *m;
    struct mf_err err;
    float *obs = fixture_find(&fixture, "obs", NULL), *noise = fixture_find(&fixture, "noise", NULL),
          *eps = fixture_find(&fixture, "eps", NULL);
    must(mf_sampler_new(&m, engine, p, evaluation, &err), &err);
    x.obs = obs, x.noise = noise;
    x.eps = evaluation ? NULL : eps;
    x.inds = evaluation ? NULL : inds;
    must(mf_sampler_run(m, N, &x, &err), &err);
    mf_sampler_free(m);
    free(obs), free(noise), free(eps);
}

/* The sampler's chain, scored by the graph of the update. */
static bool scored(struct mf_policy *p, const float *chains, const int32_t *inds, const float *logprobs)
{
    enum { D = 12, E = C * 3 };
    struct mf_graph *g = mf_graph_new(&p->params);
    struct mf_plan *plan;
    struct mf_score s;
    struct mf_err err;
    float *obs = fixture_find(&fixture, "obs", NULL), got[N * E], chain[N * (K + 1) * D], coef[N * K * 3], time[N];
    const bool joint = p->spec.denoise == MF_JOINT;
    const int k = joint ? K : 1;
    const size_t e = (size_t)mf_logprob_width(&p->spec), wide = (size_t)((k + 1) * D);
    mf_policy_normalize(p, N, obs, obs);
    for (int i = 0; i < N; i++) {
        const int at = joint ? 0 : inds[i * K];
        memcpy(chain + (size_t)i * wide, chains + (i * (K + 1) + at) * D, wide * sizeof *chain);
        for (int j = 0; j < k; j++)
            mf_flow_coef(&p->spec, at + j, .5, true, coef + (i * k + j) * 3);
        time[i] = (float)mf_flow_time(&p->spec, at);
    }
    mf_score_build(g, p, &s);
    must(mf_plan_new(&plan, engine, g, &(struct mf_plan_opts){0}, &err), &err);
    mf_score_set(plan, &s, p);
    struct mf_feed feed[] = {{s.obs, obs, (size_t)p->spec.net.O, false},
                             {s.chain, chain, wide, false},
                             {s.coef, coef, (size_t)(k * 3), false},
                             {s.time, time, 1, false}};
    struct mf_fetch fetch = {s.logprobs, got, e};
    must(mf_plan_run(
             plan, &(struct mf_batch){.n = N, .feed = feed, .n_feeds = joint ? 3 : 4, .fetch = &fetch, .n_fetches = 1},
             &err),
         &err);
    mf_plan_free(plan);
    mf_graph_free(g);
    free(obs);
    return !memcmp(got, logprobs, N * e * sizeof *got);
}

static void sde(const char *name, const char *const *words, const int32_t *inds, size_t width)
{
    enum { D = 12 };
    float chains[N * (K + 1) * D], logprobs[N * C * 3], values[N], actions[N * C * 3];
    char what[40];
    struct mf_policy p = policy(words);
    sample(&p, false, inds,
           (struct mf_sample){.chains = chains, .logprobs = logprobs, .values = values, .actions = actions});
    snprintf(what, sizeof what, "%s.chains", name);
    is(what, chains, N * (K + 1) * D);
    snprintf(what, sizeof what, "%s.logprobs", name);
    is(what, logprobs, N * width);
    is("values", values, N);
    if (width == 1)
        is("joint.actions", actions, N * C * 3);
    ok(scored(&p, chains, inds, logprobs), "%s: the update's graph scores it to the bit", name);
    mf_policy_release(&p);
}

int main(void)
{
    struct mf_err err;
    int32_t all[N * K], drawn[N * K];
    float actions[N * C * 3];
    int fd = mkstemp(to);
    if (fd < 0 || close(fd))
        return 1;
    must(mf_engine_open(&engine, "cpu", 1, MF_FP32, &err), &err);
    fixture = fixture_load("tests/fixtures/fork.bin");
    float *k = fixture_find(&fixture, "drawn", NULL);
    for (int i = 0; i < N * K; i++)
        all[i] = i % K, drawn[i] = (int32_t)k[i / K];
    described();
    struct mf_policy p = policy(WORDS(NULL));
    sample(&p, true, NULL, (struct mf_sample){.actions = actions});
    is("ode.actions", actions, N * C * 3);
    mf_policy_release(&p);
    sde("joint", WORDS("policy.noise_method=flow_sde", "policy.denoise=joint", "policy.objective=chain_mean"), all, 1);
    sde("single", WORDS("policy.noise_method=flow_sde", "policy.denoise=single", "policy.objective=step"), drawn,
        C * 3);
    mf_engine_close(engine);
    unlink(to);
    free(k);
    free(fixture.bytes);
    return done();
}
