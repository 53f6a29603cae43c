/* Offline value functions: transitions against hand-computed numbers, weights, targets and losses against reference
 * values (tests/reference/offline.py), and whole estimators where their answer is known. */
#include <unistd.h>

#include "demo_file.h"
#include "device_under_test.h"
#include "policies.h"
#include "rl/weigh.h"

enum { B = 10, CA = 6, O = 6 };

static struct fixture fixture;
static struct mf_engine *engine;

/* ---- transitions ---- */

static void is(const struct mf_smdp *s, double reward, double discount, int ahead, bool terminates, double gain,
               bool success, const char *what)
{
    ok(fabs((double)s->reward - reward) < 1e-6 && fabs((double)s->discount - discount) < 1e-6 && s->ahead == ahead &&
           s->terminates == terminates && fabs((double)s->gain - gain) < 1e-6 && s->success == success,
       "%s: R %g, gamma^n %g, n %d, gain %g", what, (double)s->reward, (double)s->discount, s->ahead, (double)s->gain);
}

/* Two episodes in one demonstration, of 4 steps and 2: gamma .5, chunks of 3. */
static void transitions(void)
{
    float rewards[] = {NAN, 1, 2, 4, 8, 16, -1};
    uint8_t terminates[] = {9, 0, 0, 0, MF_DEMO_TERMINATED, 0, MF_DEMO_CUT}, success[] = {0, 1, 1, 1, 1, 0, 0};
    struct mf_smdp s[6];
    mf_smdp_of(&(struct mf_outcomes){rewards, terminates, success}, 1, 6, 3, .5, s);
    is(&s[0], 1 + 1 + 1, .125, 3, false, 4, true, "a whole chunk before the end");
    is(&s[1], 2 + 2 + 2, 0, 3, true, 6, true, "the end in the last step of the chunk");
    is(&s[2], 4 + 4, 0, 2, true, 8, true, "the end in the middle of the chunk");
    is(&s[3], 8, 0, 1, true, 8, true, "the last step itself");
    is(&s[4], 16, .5, 1, false, 15.5, false, "a cut: the last state that is known");
    is(&s[5], 0, 1, 0, false, -1, false, "no state behind a cut");
    ok(mf_smdp_has_target(&s[3]) && mf_smdp_has_target(&s[4]) && !mf_smdp_has_target(&s[5]),
       "the last step before a cut has no target");
    uint8_t cut[] = {9, 0, 0, 0, MF_DEMO_CUT};
    mf_smdp_of(&(struct mf_outcomes){rewards, cut, success}, 1, 4, 3, .5, s);
    is(&s[0], 3, .125, 3, false, 4, true, "the chunk that ends in the last state");
    is(&s[1], 2 + 2, .25, 2, false, 6, true, "a shorter one");
}

/* ---- against the reference ---- */

static void weights(const char *kind)
{
    const struct mf_offline_opts o = {.beta = 10, .clip = 100};
    float *q = fixture_record(&fixture, kind, ".q"), *want = fixture_record(&fixture, kind, ".weights"),
          *stats = fixture_record(&fixture, kind, ".stats"), w[B];
    const double mean = mf_weigh_mean(B, q);
    for (int i = 0; i < B; i++)
        q[i] = (float)((double)q[i] - mean);
    mf_weigh_exp(&o, B, q, w);
    double squares = 0, error = largest_difference(w, want, B);
    for (int i = 0; i < B; i++)
        squares += ((double)w[i] - 1) * ((double)w[i] - 1);
    ok(error < 2e-5, "%s: weights, error %.1e", kind, error);
    near(mean, (double)stats[0], 1e-6, "the mean of Q");
    near(sqrt(squares / (B - 1)), (double)stats[2], 1e-5, "the deviation of the weights");
    free(q), free(want), free(stats);
}

static void clipped(void)
{
    const struct mf_offline_opts o = {.beta = 2, .clip = 3};
    float w[2];
    mf_weigh_exp(&o, 2, (float[]){0, 1000}, w);
    ok(w[0] == .5f && w[1] == 1.5f, "weights are clipped, then divided by their mean: %g %g", (double)w[0],
       (double)w[1]);
    mf_weigh_exp(&o, 2, (float[]){0, NAN}, w);
    ok(isnan(w[1]), "NaN is not clipped away");
    float none[2] = {0};
    mf_weigh_mean_1(2, none);
    ok(none[0] == 0 && none[1] == 0, "weights that are all 0 stay");
}

static void targets(const char *kind, int n)
{
    float *next = fixture_record(&fixture, kind, ".next_q"), *want = fixture_record(&fixture, kind, ".y"),
          *reward = fixture_record(&fixture, "", "reward"), *done = fixture_record(&fixture, "", "done"),
          *discount = fixture_record(&fixture, "", "discount"), y[B], mask[B], least[B];
    struct mf_smdp s[B];
    uint32_t sample[B];
    struct mf_offline o = {.opts = {.reward_scale = .1, .critics = n}, .smdp = s};
    for (uint32_t i = 0; i < B; i++) {
        s[i] = (struct mf_smdp){reward[i], done[i] > 0 ? 0 : discount[i], 0, 1, done[i] > 0, false};
        sample[i] = i;
        least[i] = mf_qnet_min(next + i * (size_t)n, n, NULL);
    }
    mf_weigh_targets(&o, &(struct mf_weigh_batch){.n = B, .sample = sample}, least, y, mask);
    double error = largest_difference(y, want, B);
    ok(error < 2e-5, "%s: targets, error %.1e", kind, error);
    s[0] = (struct mf_smdp){1e6f, 1, 0, 1, false, false};
    s[1] = (struct mf_smdp){-1e6f, 1, 0, 1, false, false};
    s[2] = (struct mf_smdp){1, 1, 0, 0, false, false};
    least[3] = NAN;
    mf_weigh_targets(&o, &(struct mf_weigh_batch){.n = B, .sample = sample}, least, y, mask);
    ok(y[0] == 100 && y[1] == -100 && mask[0] > 0, "targets are within 100");
    ok(y[2] == 0 && mask[2] == 0, "a sample without a next state is masked");
    ok(isnan(y[3]), "NaN is not clipped away");
    free(next), free(want), free(reward), free(done), free(discount);
}

/* Values, losses and the targets' way; test_qnet has the gradients. */
static void learns(const char *kind, int n)
{
    struct mf_err err;
    struct mf_critics c;
    const struct mf_critics_opts o = {.O = O, .A = CA, .q = {NULL, n, 2, {20, 16}, MF_ACT_MISH, false}, .tau = .25};
    float *obs = fixture_record(&fixture, "", "obs"), *next = fixture_record(&fixture, "", "next_obs"),
          *actions = fixture_record(&fixture, "", "actions"), *after = fixture_record(&fixture, kind, ".after"),
          *y = fixture_record(&fixture, kind, ".y"), *all = fixture_record(&fixture, kind, ".all_q"),
          *next_q = fixture_record(&fixture, kind, ".next_q"), *want = fixture_record(&fixture, kind, ".loss"),
          q[B * 3], weight[B];
    char key[64];
    double loss;
    must(mf_critics_open(&c, engine, &o, false, &err), &err);
    float *before = calloc(c.of.params.size, sizeof *before);
    for (int i = 0; i < B; i++)
        weight[i] = 1.0f / B;
    for (int i = 0; i < c.of.params.n; i++) /* the fixture has no prefix offline/ */
        memmove(c.of.params.p[i].name, c.of.params.p[i].name + strlen(MF_SIDE), strlen(c.of.params.p[i].name) - 7);
    snprintf(key, sizeof key, "%s.param", kind);
    load_params(&fixture, key, &c.of.params, c.of.params.value);
    snprintf(key, sizeof key, "%s.target", kind);
    load_params(&fixture, key, &c.of.params, c.of.ema);
    mf_params_touch(&c.of.params);
    mf_adam_touch(&c.of.adam);
    memcpy(before, c.of.ema, c.of.params.size * sizeof *before);

    must(mf_critics_target(&c, B, after, CA, next, q, &err), &err);
    ok(largest_difference(q, next_q, (size_t)(B * n)) < 2e-5, "%s: values of the targets", kind);
    const struct mf_critics_batch batch = {
        .n = B, .stride = CA, .actions = actions, .obs = obs, .y = y, .weight = weight};
    must(mf_critics_learn(&c, &batch, 1e-3, q, NULL, &loss, &err), &err);
    ok(largest_difference(q, all, (size_t)(B * n)) < 2e-5, "%s: values before the step", kind);
    near(loss, (double)*want, 1e-5, "the loss of the critics");
    must(mf_engine_settle(engine, &c.of.params, &c.of.adam, &err), &err);
    double worst = 0;
    for (size_t i = 0; i < c.of.params.size; i++)
        worst =
            worse(worst, fabs((double)c.of.ema[i] - (.75 * (double)before[i] + .25 * (double)c.of.params.value[i])));
    ok(worst < 1e-6, "targets move by tau towards the new critics: %.1e", worst);
    y[0] = NAN;
    ok(mf_critics_learn(&c, &batch, 1e-3, q, NULL, &loss, &err) == MF_EMATH, "%s", err.text);
    mf_critics_release(&c);
    free(obs), free(next), free(actions), free(after), free(y), free(all), free(next_q), free(want), free(before);
}

/* V by expectiles: values, loss and gradients of PyTorch. */
static void expectiles(const char *name, double tau)
{
    struct mf_err err;
    struct mf_critics c;
    const struct mf_critics_opts o = {
        .O = O, .A = CA, .q = {NULL, 0, 2, {20, 16}, MF_ACT_MISH, false}, .value = true, .tau = 1};
    float *obs = fixture_record(&fixture, "", "obs"), *low = fixture_record(&fixture, "iql", ".low"),
          *v = fixture_record(&fixture, "iql", ".v"), *want = fixture_record(&fixture, name, ".loss"), got[B],
          weight[B];
    char key[64];
    double loss;
    int found;
    must(mf_critics_open(&c, engine, &o, false, &err), &err);
    for (int i = 0; i < c.of.params.n; i++)
        memmove(c.of.params.p[i].name, c.of.params.p[i].name + strlen(MF_SIDE), strlen(c.of.params.p[i].name) - 7);
    load_params(&fixture, "iql.param", &c.of.params, c.of.params.value);
    mf_params_touch(&c.of.params);
    must(mf_critics_value(&c, B, obs, got, &err), &err);
    ok(largest_difference(got, v, B) < 2e-5, "%s: V", name);
    for (int i = 0; i < B; i++)
        weight[i] = (float)fabs(tau - (low[i] < got[i])) / B;
    const struct mf_critics_batch batch = {.n = B, .obs = obs, .v_y = low, .v_weight = weight};
    must(mf_critics_learn(&c, &batch, 0, NULL, NULL, &loss, &err), &err);
    near(loss, (double)*want, 1e-5, "its expectile loss");
    snprintf(key, sizeof key, "%s.grad", name);
    double error = grads_error(&fixture, key, &c.of.params, mf_plan_grads(c.learn.plan), &found);
    ok(error < 1e-4 && found == c.of.params.n, "%s: gradients of %d tensors, relative error %.1e", name, found, error);
    mf_critics_release(&c);
    free(obs), free(low), free(v), free(want);
}

/* ---- whole estimators ---- */

/* Files of DEMOS demonstrations with a state and an action of one number. */
static char path[] = "/tmp/mf_offline_XXXXXX";
enum { DEMOS = 64 };

static void put_demo(hid_t file, int i, hsize_t n, const float *state, const float *action, const float *reward)
{
    const struct {
        const char *name;
        const float *x;
        int rank;
    } set[] = {{"actions", action, 2}, {"obs/state", state, 2}, {"rewards", reward, 1}};
    uint8_t dones[2] = {0};
    char name[64];
    for (int k = 0; k < 3; k++) {
        snprintf(name, sizeof name, "data/demo_%d/%s", i, set[k].name);
        mf_h5_put(file, name, MF_F32, set[k].rank, (hsize_t[]){n, 1}, set[k].x, NULL);
    }
    dones[n - 1] = 1;
    snprintf(name, sizeof name, "data/demo_%d/dones", i);
    mf_h5_put(file, name, MF_U8, 1, &n, dones, NULL);
}

/* One step in one state: action .5 with reward 1 and -.5 with reward 0, as often. */
static void write_bandit(void)
{
    hid_t file = create(path);
    for (int i = 0; i < DEMOS; i++)
        put_demo(file, i, 1, (float[]){0}, (float[]){i % 2 ? .5f : -.5f}, (float[]){(float)(i % 2)});
    mf_h5_close(file);
}

/* Two steps: any action, and then .5 with reward 1. */
static void write_chain(void)
{
    hid_t file = create(path);
    for (int i = 0; i < DEMOS / 2; i++)
        put_demo(file, i, 2, (float[]){-1, 1}, (float[]){i % 2 ? .5f : -.5f, .5f}, (float[]){0, 1});
    mf_h5_close(file);
}

struct lesson {
    double good, bad; /* weights of the last minibatch */
    struct mf_weigh_stats stats;
    double value; /* V of the only state, where there is one */
};

static struct lesson learn(const char *weight, int64_t steps)
{
    struct mf_err err;
    struct mf_demos demos;
    struct mf_cloning c;
    struct mf_offline o;
    struct lesson got = {.value = NAN};
    struct mf_policy_spec s = small_spec("reflow_mlp");
    s.obs = (struct mf_layout){1, 1, {{"state", {1}, false}}};
    s.action_dim = 1, s.horizon = 2, s.n_action_steps = 1, s.n_critic = 0;
    const struct mf_cloning_opts opts = {.device = device_under_test(),
                                         .threads = 2,
                                         .seed = 1,
                                         .steps = steps,
                                         .batch_size = DEMOS,
                                         .learning_rate = 1e-3,
                                         .ema_decay = .9,
                                         .pad_before = -1,
                                         .pad_after = -1,
                                         .range_floor = .1};
    const struct mf_offline_opts how = {weight, 2, 100, .9, 1, .7, .05, 1e-2, 2, {2, {16, 16}}};
    must(mf_demos_open(&demos, path, &(struct mf_demos_opts){.cache = 1 << 20}, &err), &err);
    must(mf_cloning_open(&c, &s, NULL, MF_WEIGHTS_AUTO, &demos, &opts, NULL, NULL, &err), &err);
    must(mf_offline_open(&o, &how, &c, &err), &err);
    for (int64_t i = 0; i < steps; i++) {
        struct mf_cloning_stats seen = {0};
        float state = 0, v;
        if (i + 1 == steps && o.kind->value)
            must(mf_critics_value(&o.critics, 1, &state, &v, &err), &err), got.value = (double)v;
        must(mf_cloning_step(&c, &seen, &err), &err);
        got.stats = seen.weighing;
    }
    for (int i = 0; i < DEMOS; i++) /* the last minibatch has each demonstration once */
        *(c.actions[i * 2 + 1] > 0 ? &got.good : &got.bad) += (double)c.weight[i] / (DEMOS / 2);
    mf_offline_release(&o);
    mf_cloning_release(&c);
    mf_demos_close(&demos);
    return got;
}

/* Every demonstration ends with its reward, so Q is the reward, and weights have a closed form for beta 2. */
static void bandit(void)
{
    const double good = 2 * exp(2) / (exp(2) + 1), bad = 2 / (exp(2) + 1);
    struct lesson q = learn("q", 600), iql = learn("iql", 600), ret = learn("return", 400), won = learn("success", 1);
    ok(fabs(q.good - good) < .02 && fabs(q.bad - bad) < .02, "q: weights %.3f %.3f are %.3f %.3f", q.good, q.bad, good,
       bad);
    ok(fabs(q.stats.q_mean - .5) < .02 && fabs(q.stats.weight_mean - 1) < 1e-6 && q.stats.critic_loss < 1e-2,
       "its mean Q %.3f, loss %.1e", q.stats.q_mean, q.stats.critic_loss);
    ok(fabs(iql.good - good) < .02 && fabs(iql.bad - bad) < .02, "iql: weights %.3f %.3f", iql.good, iql.bad);
    ok(fabs(iql.value - .7) < .02, "its V %.3f is the expectile .7 of 0 and 1", iql.value);
    ok(fabs(ret.good - good) < .02 && fabs(ret.bad - bad) < .02, "return: weights %.3f %.3f", ret.good, ret.bad);
    ok(fabs(ret.value - .5) < .02, "its V %.3f is the mean of 0 and 1", ret.value);
    ok(won.good == 2 && won.bad == 0 && isnan(won.stats.critic_loss), "success: weights %g %g", won.good, won.bad);
    struct mf_err err;
    struct mf_offline o;
    struct mf_cloning none = {.opts = {.batch_size = 1}};
    const struct mf_offline_opts unknown = {.weight = "nonsense"}, plain = {.weight = "none"};
    ok(mf_offline_open(&o, &unknown, &none, &err) == MF_EUSAGE, "%s", err.text);
    ok(mf_offline_open(&o, &plain, &none, &err) == 0 && !none.weighing, "none weighs nothing");
}

/* The first step is worth .9, what the policy gets from the second on. */
static void chain(void)
{
    struct lesson q = learn("q", 800), iql = learn("iql", 800);
    ok(fabs(q.stats.q_mean - .95) < .03, "q bootstraps from the next state: mean Q %.3f", q.stats.q_mean);
    ok(fabs(iql.stats.q_mean - .95) < .03, "iql bootstraps from the next state: mean Q %.3f", iql.stats.q_mean);
}

int main(void)
{
    struct mf_err err;
    close(mkstemp(path));
    must(mf_engine_open(&engine, device_under_test(), 2, MF_FP32, &err), &err);
    fixture = fixture_load("tests/fixtures/offline.bin");
    transitions();
    weights("double");
    weights("ensemble");
    clipped();
    targets("double", 2);
    targets("ensemble", 3);
    learns("double", 2);
    learns("ensemble", 3);
    expectiles("iql7", .7);
    expectiles("iql9", .9);
    write_bandit();
    bandit();
    write_chain();
    chain();
    unlink(path);
    free(fixture.bytes);
    mf_engine_close(engine);
    return done();
}
