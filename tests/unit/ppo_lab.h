/* ppo_lab.h - rounds that the sampler made, and the learner on them. */
#ifndef MF_PPO_LAB_H
#define MF_PPO_LAB_H

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "device_under_test.h"
#include "flow/sampler.h"
#include "rl/ppo.h"
#include "tap.h"

enum { T = 6, N = 10, O = 5, A = 2, H = 3, C = 2, K = 3, D = H * A };

static struct mf_err err;

static inline struct mf_policy_spec spec_of(enum mf_noise_method method, enum mf_denoise denoise,
                                            enum mf_objective objective, bool learned)
{
    struct mf_policy_spec s = {.obs = {1, O, {{"state", {O}, false}}},
                               .n_obs_steps = 1,
                               .action_dim = A,
                               .horizon = H,
                               .n_action_steps = C,
                               .K = K,
                               .convention = MF_NOISE0,
                               .noise_method = method,
                               .denoise = denoise,
                               .objective = objective,
                               .learned_noise = learned,
                               .n_critic = 3,
                               .critic = {16, 16, 16},
                               .n_noise = 2,
                               .noise = {8, 8}};
    s.net =
        (struct mf_net_spec){.O = O, .D = D, .n_hidden = 3, .hidden = {16, 16, 16}, .act = MF_ACT_RELU, .time_dim = 8};
    mf_net_find(&s.net.net, "reflow_mlp", &err);
    return s;
}

static const struct mf_ppo_opts defaults = {.seed = 1,
                                            .num_epochs = 3,
                                            .batch_size = 16,
                                            .repeat_samples = 1,
                                            .clip_range = 0.2,
                                            .value_coef = 0.5,
                                            .learning_rate = 1e-3,
                                            .critic_learning_rate = 1e-3,
                                            .noise_learning_rate = 1e-3,
                                            .max_grad_norm = 0.5,
                                            .normalize_advantages = true};

struct round {
    struct mf_frame *slice[8];
    int n;
};

static inline void *add(struct mf_frame *f, const char *name, enum mf_dtype type, int rank, const size_t *dim)
{
    void *p = NULL;
    if (mf_frame_add(f, name, type, rank, dim, &p, &err))
        abort();
    return p;
}

/* Samples a round with the policy and splits it into slices. masked: every third decision is no transition, and all of
 * its values are `garbage`. */
static inline struct round sample_round(struct mf_policy *p, struct mf_engine *e, int slices, bool masked,
                                        float garbage)
{
    struct round r = {.n = slices};
    struct mf_sampler *s;
    int E = mf_logprob_width(&p->spec);
    if (mf_sampler_new(&s, e, p, false, &err))
        abort();
    for (int k = 0; k < slices; k++) {
        size_t first = (size_t)(k * N / slices), n = (size_t)((k + 1) * N / slices) - first, tn[2] = {T, n};
        struct mf_frame *f = r.slice[k] = mf_frame_new(MF_ROLLOUT);
        mf_frame_set_int(f, "iter", 0);
        mf_frame_set_ints(f, "slice", (int64_t[]){k, slices}, 2);
        mf_frame_set_ints(f, "envs", (int64_t[]){(int64_t)first, (int64_t)n}, 2);
        float *obs = add(f, "obs/state", MF_F32, 4, (size_t[]){T, n, 1, O});
        float *actions = add(f, "actions", MF_F32, 4, (size_t[]){T, n, C, A});
        float *rewards = add(f, "rewards", MF_F32, 3, (size_t[]){T, n, C});
        uint8_t *terminated = add(f, "terminated", MF_U8, 2, tn);
        add(f, "truncated", MF_U8, 2, tn);
        uint8_t *valid = add(f, "valid", MF_U8, 2, tn);
        uint8_t *success = add(f, "success", MF_U8, 2, tn);
        int32_t *n_exec = add(f, "n_exec", MF_I32, 2, tn);
        float *values = add(f, "prev_values", MF_F32, 2, tn);
        add(f, "last_values", MF_F32, 1, &n);
        float *chains = add(f, "chains", MF_F32, 5, (size_t[]){T, n, K + 1, H, A});
        int32_t *inds = add(f, "denoise_inds", MF_I32, 3, (size_t[]){T, n, K});
        float *logp = add(f, "prev_logprobs", MF_F32, E == 1 ? 2 : 4, (size_t[]){T, n, C, A});
        float *adv = add(f, "advantages", MF_F32, 2, tn), *ret = add(f, "returns", MF_F32, 2, tn);
        for (size_t t = 0; t < T; t++)
            for (size_t i = 0; i < n; i++) {
                size_t at = t * n + i;
                float noise[D], eps[K * D], draw[O + 2];
                struct mf_rng g = mf_rng_at(7, MF_RNG_TEST, (uint32_t)(first + i), 0, (uint32_t)t);
                mf_rng_normal(&g, draw, O + 2);
                mf_rng_normal(&g, noise, D);
                mf_rng_normal(&g, eps, K * D);
                int drawn = (int)mf_rng_below(&g, p->spec.noise_method == MF_FLOW_CPS ? K - 1 : K);
                for (int q = 0; q < K; q++)
                    inds[at * K + (size_t)q] = p->spec.denoise == MF_SINGLE ? drawn : q;
                memcpy(obs + at * O, draw, O * sizeof *draw);
                struct mf_sample x = {.obs = obs + at * O,
                                      .noise = noise,
                                      .eps = eps,
                                      .inds = inds + at * K,
                                      .chains = chains + at * (K + 1) * D,
                                      .logprobs = logp + at * (size_t)E,
                                      .values = values + at,
                                      .actions = actions + at * C * A};
                if (mf_sampler_run(s, 1, &x, &err))
                    abort();
                adv[at] = draw[O];
                ret[at] = draw[O + 1];
                valid[at] = !masked || (first + i + t) % 3 != 0;
                terminated[at] = success[at] = (first + i + t) % 4 == 3;
                n_exec[at] = 1 + (int)((first + i) % C);
                if (valid[at])
                    continue;
                for (int q = 0; q < O; q++)
                    obs[at * O + (size_t)q] = garbage;
                for (int q = 0; q < (K + 1) * D; q++)
                    chains[at * (K + 1) * D + (size_t)q] = garbage;
                for (int q = 0; q < E; q++)
                    logp[at * (size_t)E + (size_t)q] = garbage;
                adv[at] = ret[at] = values[at] = rewards[at * C] = actions[at * C * A] = garbage;
            }
    }
    mf_sampler_free(s);
    return r;
}

struct run {
    struct mf_policy policy;
    struct mf_ppo_stats stats;
    int rc;
};

/* Of the rows, before the update. */
typedef void change_fn(struct mf_rows *r, struct mf_engine *e, struct mf_policy *p, const struct mf_ppo_opts *o);

static inline struct run update_changed(const struct mf_policy_spec *spec, const struct mf_ppo_opts *o, int threads,
                                        int slices, bool masked, float garbage, change_fn *change)
{
    struct run out = {.rc = 0};
    struct mf_engine *e;
    struct mf_ppo *q;
    struct mf_rows rows = {0};
    if (mf_engine_open(&e, device_under_test(), threads, MF_FP32, &err) || mf_policy_init(&out.policy, spec, &err))
        abort();
    mf_policy_fresh(&out.policy, 3);
    mf_policy_set_noise(&out.policy, 0.1, 0.2);
    struct round r = sample_round(&out.policy, e, slices, masked, garbage);
    const double noise[] = {.2, .2, .2, .2, .2, .2, .2, .2};
    out.rc = mf_ppo_new(&q, e, &out.policy, o, &err);
    if (out.rc == 0) {
        out.rc = mf_rows_gather(&rows, &out.policy, mf_ppo_needs(q), noise, r.slice, (size_t)r.n, &err);
        if (out.rc == 0 && change)
            change(&rows, e, &out.policy, o);
        if (out.rc == 0)
            out.rc = mf_ppo_update(q, &rows, &out.stats, &err);
        mf_ppo_free(q);
    }
    if (out.rc)
        printf("# %s\n", err.text);
    mf_rows_release(&rows);
    for (int k = 0; k < r.n; k++)
        mf_frame_free(r.slice[k]);
    mf_engine_close(e);
    return out;
}

static inline struct run update_noisy(const struct mf_policy_spec *spec, const struct mf_ppo_opts *o, int threads,
                                      int slices, bool masked, float garbage)
{
    return update_changed(spec, o, threads, slices, masked, garbage, NULL);
}

static inline bool same_weights(const struct mf_policy *a, const struct mf_policy *b)
{
    return !memcmp(a->params.value, b->params.value, a->params.size * sizeof(float));
}

static inline double furthest(const struct mf_policy *a, const struct mf_policy *b)
{
    return largest_difference(a->params.value, b->params.value, a->params.size);
}

#endif
