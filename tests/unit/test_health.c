/* A run's health and its diagnosis, against hand-made rounds and metrics. */
#include <stdlib.h>
#include <string.h>

#include "flow/policy.h"
#include "stream/frame.h"
#include "rl/health.h"
#include "tap.h"

static void test_shares(void)
{
    float chain[2 * 3 * 2] = {[4] = 2.0f, [5] = .2f, [10] = -2.1f, [11] = 1.9f}; /* the last of K+1 = 3 points counts */
    float obs[2 * 2] = {2.5f, 0, 1.9f, -3};
    float scale[1] = {2}, offset[1] = {0};
    uint32_t live[2] = {0, 1};
    struct mf_rows r = {.n = 2, .n_live = 2, .O = 2, .D = 2, .P = 3, .live = live, .chain = chain, .obs = obs};
    struct mf_policy p = {.spec = {.net = {.n_obs_steps = 1, .obs = {1, 2, {{"state", {2}, false}}}},
                                   .action_dim = 1,
                                   .denoise = MF_JOINT,
                                   .K = 2,
                                   .learned_noise = true},
                          .action_scale = scale,
                          .action_offset = offset,
                          .noise_low = .1,
                          .noise_high = .4};
    const double unit = 0.5 * log(2 * M_PI * M_E), sigma = .2;
    struct mf_health h;
    struct mf_err err;
    mf_health_of(&h, &r, &p, (unit + 2 * (unit + log(sigma))) / 3, NULL, &err);
    near(h.action_saturation, .5, 1e-12, "2 of 4 actions are at the limits, in the environment's units");
    near(h.obs_outside, .5, 1e-12, "2 of 4 observations are far outside");
    near(h.sigma_place, .5, 1e-9, "sigma .2 is half of the way from .1 to .4, in logarithms");
    r.n_live = 1;
    mf_health_of(&h, &r, &p, 0, NULL, &err);
    near(h.obs_outside, .5, 1e-12, "masked rows do not count");
    p.spec.denoise = MF_SINGLE;
    p.spec.learned_noise = false;
    mf_health_of(&h, &r, &p, 0, NULL, &err);
    ok(isnan(h.action_saturation) && isnan(h.sigma_place), "an undefined value is NaN");
}

/* n iterations in which `series` is `value`, and success is good. Returns the diagnosis. */
static char *said(const char *series, double value, int n, int *troubles)
{
    static char text[4000];
    char path[100];
    struct mf_history h = {.fd = -1};
    struct mf_err err;
    memset(text, 0, sizeof text);
    snprintf(path, sizeof path, "values.%s", series);
    for (int i = 0; i < n; i++) {
        struct mf_frame *f = mf_frame_new(MF_METRICS);
        mf_frame_set_int(f, "iter", i);
        mf_frame_set_int(f, "step", 100 * i);
        mf_frame_set_num(f, "time", i);
        mf_frame_set_num(f, "values.rollout/success_once", .9);
        mf_frame_set_num(f, path, value);
        mf_history_take(&h, f, &err);
        mf_frame_free(f);
    }
    FILE *to = fmemopen(text, sizeof text, "w");
    *troubles = mf_diagnose(&h, to);
    fclose(to);
    mf_history_close(&h);
    return text;
}

static void test_words(void)
{
    static const struct {
        const char *series;
        double bad, good;
        const char *key;
    } all[] = {{"train/logratio_gap", .01, 0, "training.recompute_logprobs"},
               {"train/skipped", 1, 0, "training.learning_rate"},
               {"train/dropped_rounds", 2, 0, "collect.max_lag"},
               {"train/approx_kl", .5, .01, "training.target_kl"},
               {"train/kl_stop", 1, 0, "training.num_epochs"},
               {"train/clip_fraction", .8, .1, "training.clip_range"},
               {"train/clamped_fraction", .2, 0, "policy.min_noise_std"},
               {"train/explained_variance", -.5, .3, "training.critic_warmup_steps"},
               {"train/value_loss", 1000, .1, "collect.reward_scale=running"},
               {"train/sigma_place", .99, .5, "policy.max_noise_std"},
               {"train/sigma_place", .01, .5, "policy.min_noise_std"},
               {"rollout/action_saturation", .9, .1, "policy.final_limit"},
               {"rollout/obs_outside", .3, .01, "normaliser"},
               {"rollout/success_once", 0, .5, "policy.checkpoint"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int n;
        const char *text = said(all[i].series, all[i].bad, 30, &n);
        ok(n == 1 && strstr(text, "trouble: ") == text && strstr(text, all[i].key),
           "%s of %g is a trouble, and %s a cure", all[i].series, all[i].bad, all[i].key);
        text = said(all[i].series, all[i].good, 30, &n);
        ok(n == 0 && !*text, "%s of %g is none", all[i].series, all[i].good);
    }
}

static void test_no_success(void)
{
    for (int rises = 0; rises < 2; rises++) {
        struct mf_history h = {.fd = -1};
        struct mf_err err;
        for (int i = 0; i < 30; i++) {
            struct mf_frame *f = mf_frame_new(MF_METRICS);
            mf_frame_set_int(f, "iter", i);
            mf_frame_set_int(f, "step", i);
            mf_frame_set_num(f, "time", i);
            mf_frame_set_num(f, "values.rollout/success_once", 0);
            mf_frame_set_num(f, "values.rollout/ep_return", rises ? 10 + i : 40);
            mf_history_take(&h, f, &err);
            mf_frame_free(f);
        }
        FILE *to = fopen("/dev/null", "w");
        ok(mf_diagnose(&h, to) == !rises, "no success is %s trouble where returns %s", rises ? "no" : "a",
           rises ? "rise" : "stay");
        fclose(to);
        mf_history_close(&h);
    }
}

static void test_collapse(void)
{
    struct mf_history h = {.fd = -1};
    struct mf_err err;
    char text[1000] = "";
    for (int i = 0; i < 60; i++) {
        struct mf_frame *f = mf_frame_new(MF_METRICS);
        mf_frame_set_int(f, "iter", i);
        mf_frame_set_int(f, "step", i);
        mf_frame_set_num(f, "time", i);
        mf_frame_set_num(f, "values.rollout/success_once", i < 30 ? .9 : .2);
        mf_history_take(&h, f, &err);
        mf_frame_free(f);
    }
    FILE *to = fmemopen(text, sizeof text, "w");
    int n = mf_diagnose(&h, to);
    fclose(to);
    ok(n == 1 && strstr(text, "fell from 0.90 around iteration") && strstr(text, "to 0.20"), "a collapse is reported");
    mf_history_close(&h);
}

/* 64 episodes an iteration at rates[i]; the first ones are the clone's. */
static const char *of_rates(const double *rates, int n, int first_iter)
{
    static char text[1000];
    struct mf_history h = {.fd = -1};
    struct mf_err err;
    memset(text, 0, sizeof text);
    for (int i = 0; i < n; i++) {
        struct mf_frame *f = mf_frame_new(MF_METRICS);
        mf_frame_set_int(f, "iter", first_iter + i);
        mf_frame_set_int(f, "step", i);
        mf_frame_set_num(f, "time", i);
        mf_frame_set_num(f, "values.rollout/episodes", 70);
        mf_frame_set_num(f, "values.rollout/episodes_counted", isnan(rates[i]) ? 0 : 64);
        if (!isnan(rates[i]))
            mf_frame_set_num(f, "values.rollout/success_once", rates[i]);
        mf_history_take(&h, f, &err);
        mf_frame_free(f);
    }
    FILE *to = fmemopen(text, sizeof text, "w");
    mf_diagnose(&h, to);
    fclose(to);
    mf_history_close(&h);
    return text;
}

static void test_below_clone(void)
{
    static const double ruined[] = {NAN, NAN, 1, .9, .64, .5, .5}, noisy[] = {NAN, .5, .45, .4, .42, .4},
                        better[] = {.5, .6, .9}, short_run[] = {1, .5}, climbs_again[] = {1, .5, .5, .97, .98};
    const char *text = of_rates(ruined, 7, 0);
    ok(strstr(text, "trouble: success is below what the run began with: 1.00 of its first 64 episodes (0.94 to 1.00), "
                    "0.50 of its last 128 (0.41 to 0.59); begin again from the clone with a lower "
                    "training.learning_rate, ") == text,
       "a clone that is ruined in its first rounds, with both intervals and keys: %s", text);
    ok(!*of_rates(noisy, 6, 0), "a difference within the noise is no trouble");
    ok(!*of_rates(better, 3, 0), "nor is success that rises");
    ok(!*of_rates(short_run, 2, 0), "and 64 episodes after 64 are too few to say");
    ok(!*of_rates(climbs_again, 5, 0), "or that came back");
    ok(!*of_rates(ruined, 7, 3), "metrics that do not begin with the run know no clone");
}

static void test_cloning(void)
{
    int n;
    for (int episodes = 0; episodes < 2; episodes++) {
        struct mf_history h = {.fd = -1};
        struct mf_err err;
        char text[1000] = "";
        for (int i = 0; i < 30; i++) {
            struct mf_frame *f = mf_frame_new(MF_METRICS);
            mf_frame_set_int(f, "iter", i);
            mf_frame_set_int(f, "step", i);
            mf_frame_set_num(f, "time", i);
            mf_frame_set_num(f, episodes ? "values.rollout/episodes" : "values.train/loss", 0);
            mf_history_take(&h, f, &err);
            mf_frame_free(f);
        }
        FILE *to = fmemopen(text, sizeof text, "w");
        n = mf_diagnose(&h, to);
        fclose(to);
        mf_history_close(&h);
        if (episodes)
            ok(n == 1 && strstr(text, "no episode has ended in 30 iterations"), "rounds without an end are a trouble");
        else
            ok(n == 0 && !*text, "cloning, which has no episodes, is none");
    }
}

/* What SAC has no key for is no cure of its runs. */
static void test_sac(void)
{
    char text[2][2000] = {""};
    for (int falls = 0; falls < 2; falls++) {
        struct mf_history h = {.fd = -1};
        struct mf_err err;
        for (int i = 0; i < 60; i++) {
            struct mf_frame *f = mf_frame_new(MF_METRICS);
            mf_frame_set_int(f, "iter", i);
            mf_frame_set_int(f, "step", i);
            mf_frame_set_num(f, "time", i);
            mf_frame_set_num(f, "values.train/alpha", .1);
            mf_frame_set_num(f, "values.train/value_loss", 1000);
            if (falls)
                mf_frame_set_num(f, "values.rollout/episodes", 70);
            mf_frame_set_num(f, "values.rollout/success_once", i < 30 ? .9 : .2);
            mf_history_take(&h, f, &err);
            mf_frame_free(f);
        }
        FILE *to = fmemopen(text[falls], sizeof text[falls], "w");
        const int n = mf_diagnose(&h, to);
        fclose(to);
        ok(n == 2 && strstr(text[falls], "sac.learning_rate") && strstr(text[falls], "sac.reward_shift") &&
               !strstr(text[falls], "training.") && !strstr(text[falls], "collect."),
           "a run of mf-sac is told its own keys");
        mf_history_close(&h);
    }
}

int main(void)
{
    test_shares();
    test_words();
    test_cloning();
    test_below_clone();
    test_no_success();
    test_collapse();
    test_sac();
    return done();
}
