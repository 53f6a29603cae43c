/* Trials that depend on nothing beside them, and intervals that agree with the literature. */
#include <stdlib.h>
#include <string.h>

#include "policies.h"
#include "eval/eval.h"
#include "flow/sampler.h"

enum { TRIALS = 23 };

/* Episode i lasts 2 + i % 5 control steps; its success shows at step 2 alone. Rewards are the observation's echo of
 * the actions, so that they tell which noise was drawn. */
struct toy {
    float x[5];
    int clock, length;
};

static int toy_init(void **state, const void *model, int max_steps, struct mf_err *err)
{
    (void)model, (void)max_steps, (void)err;
    *state = calloc(1, sizeof(struct toy));
    return 0;
}

static void toy_reset(void *state, struct mf_rng *rng)
{
    struct toy *s = state;
    uint32_t trial = rng->counter[3] >> 8;
    for (int i = 0; i < 5; i++)
        s->x[i] = mf_rng_range(rng, -1, 1);
    s->clock = 0;
    s->length = 2 + (int)(trial % 5);
}

static struct mf_env_step toy_step(void *state, const float *action)
{
    struct toy *s = state;
    for (int i = 0; i < 5; i++)
        s->x[i] = .5f * s->x[i] + action[i % 2];
    s->clock++;
    return (struct mf_env_step){.reward = s->x[0], .truncated = s->clock == s->length, .success = s->clock == 2};
}

static void toy_observe(void *state, int key, const struct mf_obs *as, float *to)
{
    (void)key, (void)as;
    memcpy(to, ((struct toy *)state)->x, sizeof((struct toy *)state)->x);
}

static const struct mf_env toy = {.name = "toy",
                                  .obs = {{"state", {5}, false}},
                                  .action_dim = 2,
                                  .max_steps = 6,
                                  .init = toy_init,
                                  .release = free,
                                  .reset = toy_reset,
                                  .step = toy_step,
                                  .observe = toy_observe};

static void play_by(int K, int num_envs, int threads, uint64_t seed, struct mf_trial *trial)
{
    struct mf_err err;
    struct mf_engine *e;
    struct mf_policy p;
    struct mf_sampler *s;
    struct mf_policy_spec spec = small_spec("reflow_mlp");
    spec.n_obs_steps = 2;
    spec.K = K;
    must(mf_engine_open(&e, "cpu", threads, MF_FP32, &err), &err);
    must(mf_policy_init(&p, &spec, &err), &err);
    mf_policy_fresh(&p, 3);
    must(mf_sampler_new(&s, e, &p, true, &err), &err);
    struct mf_eval_opts o = {.env = &toy, .trials = TRIALS, .num_envs = num_envs, .threads = threads, .seed = seed};
    memset(trial, 0, TRIALS * sizeof *trial);
    must(mf_eval(&o, &p, s, trial, &err), &err);
    mf_sampler_free(s);
    mf_policy_release(&p);
    mf_engine_close(e);
}

static void play(int num_envs, int threads, uint64_t seed, struct mf_trial *trial)
{
    play_by(4, num_envs, threads, seed, trial);
}

static int same(const struct mf_trial *a, const struct mf_trial *b)
{
    int same = 0;
    for (int i = 0; i < TRIALS; i++)
        same += a[i].ret == b[i].ret && a[i].length == b[i].length && a[i].success_at_end == b[i].success_at_end &&
                a[i].straightness == b[i].straightness;
    return same;
}

/* From 0 by 2 and 1 to 3, beside a straight path: steps of velocities 6, -3, 6, and 3 all along. */
static void straightness(void)
{
    const float chain[] = {0, 5, 2, 4, 1, 3, 3, 2}, line[] = {1, -1, 2, -2, 3, -3};
    near(mf_straightness(chain, 3, 2), (3 * 3 + 6 * 6 + 3 * 3) / 6., 1e-12, "a bent path, by element and step");
    ok(mf_straightness(line, 2, 2) == 0, "a straight one");
}

static void trials(void)
{
    static struct mf_trial one[TRIALS], other[TRIALS];
    play(TRIALS, 1, 5, one);
    int lengths = 1, once = 1, at_end = 1;
    for (int i = 0; i < TRIALS; i++) {
        lengths &= one[i].length == 2 + i % 5;
        once &= one[i].success_once;
        at_end &= one[i].success_at_end == (i % 5 == 0);
    }
    ok(lengths, "a trial is its own first episode, to its end");
    ok(once && at_end, "success once is not success at the end");
    static const int beside[] = {1, 7, 64};
    for (int i = 0; i < 3; i++) {
        play(beside[i], 1 + i % 2, 5, other);
        ok(same(one, other) == TRIALS, "the same results with %d side by side on %d threads", beside[i], 1 + i % 2);
    }
    play(TRIALS, 1, 6, other);
    ok(same(one, other) == 0, "another seed, other trials");
    struct mf_score_sheet s = mf_eval_sum(one, TRIALS);
    ok(s.success_once.rate == 1 && s.success_once.high == 1 && s.success_at_end.rate == 5. / 23, "shares");
    ok(s.straightness > 0, "the paths of a fresh policy bend: %g", s.straightness);
    play_by(1, TRIALS, 1, 5, other);
    ok(mf_eval_sum(other, TRIALS).straightness == 0, "those of one step do not");
    other[2].straightness = NAN;
    ok(isnan(mf_eval_sum(other, TRIALS).straightness), "unknown of one trial, unknown of all");
    near(s.length, (4 * (2 + 3 + 4 + 5 + 6) + 2 + 3 + 4) / 23., 1e-12, "mean length");
}

/* Newcombe, Statistics in Medicine 17 (1998), table I, method 3. */
static void intervals(void)
{
    static const struct {
        int k, n;
        double low, high;
    } row[] = {{81, 263, .2553, .3662}, {15, 148, .0624, .1605}, {0, 20, 0, .1611}, {1, 29, .0061, .1718}};
    for (int i = 0; i < 4; i++) {
        struct mf_rate r = mf_wilson(row[i].k, row[i].n), mirror = mf_wilson(row[i].n - row[i].k, row[i].n);
        ok(fabs(r.low - row[i].low) < 6e-5 && fabs(r.high - row[i].high) < 6e-5, "%d of %d: %.4f to %.4f", row[i].k,
           row[i].n, r.low, r.high);
        near(1 - mirror.high, r.low, 1e-12, "and mirrored");
    }
}

int main(void)
{
    straightness();
    trials();
    intervals();
    return done();
}
