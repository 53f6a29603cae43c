#include "rl/actor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/stop.h"
#include "base/text.h"
#include "flow/frames.h"
#include "flow/sampler.h"
#include "env/window.h"

enum { ANNOUNCE_AFTER = 2, ROUND_IS_LONG = 10 }; /* s */

/* ---- setting up ---- */

static bool grouped(const struct mf_actor *a)
{
    return a->opts.vec.group > 1;
}

/* The dims and the rollout's columns; layout: the environment's observation. */
static void shape(struct mf_actor *a, const struct mf_layout *layout, int action_dim)
{
    const struct mf_policy_spec *s = a->policy ? &a->policy->spec : NULL;
    a->N = a->opts.vec.N;
    a->A = action_dim;
    a->O = layout->dim;
    a->To = s ? s->n_obs_steps : 1;
    a->C = s ? s->n_action_steps : 1;
    a->D = s ? s->horizon * mf_action_width(s) : 0;
    a->K = s ? s->K : 0;
    a->carried = *layout;
    a->encoding = -1;
    if (s && a->opts.encode) {
        const struct mf_net_spec net = mf_net_encoded(&s->net);
        a->carried = net.obs;
        for (int i = 0; net.encoded && i < net.obs.n; i++)
            if (!strcmp(net.obs.key[i].name, MF_ENCODING))
                a->encoding = i;
    }
    mf_columns_init(&a->columns, (size_t)a->opts.T, (size_t)a->N);
    mf_rollout_columns(&a->columns, &a->id, s, &a->carried, a->A, a->opts.reward_scale, grouped(a),
                       a->opts.vec.env->language.text != NULL);
}

static void place(struct mf_actor *a, struct mf_arena *to)
{
    const size_t N = (size_t)a->N, D = (size_t)a->D, history = N * (size_t)(a->To * a->O);
    a->history = mf_arena_take(to, history, sizeof *a->history);
    a->final_history = mf_arena_take(to, history, sizeof *a->final_history);
    a->noise = mf_arena_take(to, N * D, sizeof *a->noise);
    a->eps = mf_arena_take(to, N * (size_t)a->K * D, sizeof *a->eps);
    a->values = mf_arena_take(to, N, sizeof *a->values);
    a->chunk_reward = mf_arena_take(to, N, sizeof *a->chunk_reward);
    a->running = mf_arena_take(to, N, sizeof *a->running);
    a->over = mf_arena_take(to, N, sizeof *a->over);
}

int mf_actor_init(struct mf_actor *a, const struct mf_actor_opts *opts, struct mf_policy *p, struct mf_sampler *s,
                  struct mf_err *err)
{
    *a = (struct mf_actor){.opts = *opts, .policy = p, .sampler = s};
    mf_scale_init(&a->scale);
    a->opts.vec.trail = p ? p->spec.n_obs_steps - 1 : 0;
    a->opts.vec.turn = p && p->spec.turn_images;
    a->opts.vec.state = p ? mf_policy_state(p) : (struct mf_affine){NULL, NULL};
    int rc = mf_vec_new(&a->vec, &a->opts.vec, err);
    if (rc || (rc = mf_episodes_init(&a->episodes, opts->vec.N, err)))
        return rc;
    shape(a, mf_vec_layout(a->vec), opts->vec.env->action_dim);
    place(a, &a->arena);
    if ((rc = mf_arena_alloc(&a->arena, "the environments", err)))
        return rc;
    place(a, &a->arena);
    return mf_columns_alloc(&a->columns, err);
}

int mf_actor_memory(struct mf_engine *e, struct mf_policy *outline, const struct mf_actor_opts *opts, double kept,
                    size_t slice, struct mf_memory *to, struct mf_err *err)
{
    const double part = 64 << 20; /* bytes of a frame of the policy, at most */
    struct mf_sampler *sampler = NULL;
    struct mf_actor a = {.opts = *opts, .policy = outline};
    int rc = mf_sampler_new(&sampler, e, outline, false, err);
    if (rc == 0) {
        shape(&a, &outline->spec.obs, outline->spec.action_dim);
        place(&a, &a.arena);
        const double policy = (double)mf_policy_sent(outline, *outline->frozen),
                     round = (double)mf_columns_bytes(&a.columns);
        to->of[MF_MEMORY_SERVED] += policy + 2 * fmin(policy, part); /* the messages, and one decoded frame */
        to->of[MF_MEMORY_ROWS] += (double)a.arena.used + (1 + kept) * round + fmin(round, (double)slice);
        mf_policy_memory(outline, to);
        mf_sampler_memory(sampler, (size_t)a.N, to);
    }
    mf_sampler_free(sampler);
    return rc;
}

void mf_actor_release(struct mf_actor *a)
{
    mf_vec_free(a->vec);
    mf_columns_release(&a->columns);
    mf_episodes_release(&a->episodes);
    mf_arena_release(&a->arena);
    *a = (struct mf_actor){0};
}

/* ---- observations ---- */

/* obs (N, O): after decision d; d NULL: the first of an episode everywhere. */
static void observe(struct mf_actor *a, const struct mf_decision *d, const float *obs)
{
    mf_windows_push(a->history, a->N, (size_t)a->To, (size_t)a->O, d, obs);
}

/* Hashes of what the policy sees now: a replay buffer follows a decision into the next rollout where they agree. */
static void mark(const struct mf_actor *a, int column)
{
    const size_t floats = (size_t)(a->To * a->O);
    uint64_t *to = mf_columns_at(&a->columns, column, 0);
    for (size_t n = 0; n < (size_t)a->N; n++)
        to[n] = mf_bytes_hash(a->history + n * floats, floats * sizeof *a->history);
}

static void record_obs(const struct mf_actor *a, size_t t)
{
    const struct mf_layout *layout = mf_vec_layout(a->vec);
    size_t rows = (size_t)a->N * (size_t)a->To;
    for (int k = 0; k < a->carried.n; k++) {
        const struct mf_obs *o = &a->carried.key[k];
        if (k == a->encoding)
            continue;
        const float *from = a->history + mf_layout_column(layout, o->name);
        const size_t bytes = (size_t)mf_obs_count(o) * (o->u8 ? 1 : sizeof *from);
        char *to = mf_columns_at(&a->columns, a->id.obs[k], t);
        for (size_t i = 0; i < rows; i++)
            mf_obs_unpack(o, from + i * (size_t)a->O, to + i * bytes);
    }
}

/* Names the initial state of every environment's episode: its number and the group's, modulo 2^31. */
static void record_group(const struct mf_actor *a, size_t t)
{
    const struct mf_vec_opts *o = &a->opts.vec;
    const int32_t *episode = mf_vec_episode(a->vec);
    int32_t *group = mf_columns_at(&a->columns, a->id.group, t);
    for (int n = 0; n < a->N; n++)
        group[n] =
            (int32_t)(((uint32_t)episode[n] * (uint32_t)(a->N / o->group) + (uint32_t)(n / o->group)) & INT32_MAX);
}

/* ---- acting ---- */

/* The stochastic steps (NULL: no step is), the names of FPO's draws (NULL: none), and all random numbers of the chains.
 */
static void draw(const struct mf_actor *a, int32_t *inds, uint64_t *draws)
{
    const struct mf_policy_spec *s = &a->policy->spec;
    const int32_t *episode = mf_vec_episode(a->vec), *clock = mf_vec_clock(a->vec);
    uint64_t seed = a->opts.vec.seed;
    const uint32_t choices = (uint32_t)(s->noise_method == MF_FLOW_CPS ? a->K - 1 : a->K);
    size_t D = (size_t)a->D, K = (size_t)a->K;
    for (int n = 0; n < a->N; n++) {
        uint32_t env = (uint32_t)(a->opts.vec.first_env + n), e = (uint32_t)episode[n], t = (uint32_t)clock[n];
        struct mf_rng chain = mf_rng_at(seed, MF_RNG_CHAIN, env, e, t),
                      index = mf_rng_at(seed, MF_RNG_INDEX, env, e, t), fpo = mf_rng_at(seed, MF_RNG_FPO, env, e, t);
        mf_rng_normal(&chain, a->noise + (size_t)n * D, D);
        if (draws) {
            draws[n] = (uint64_t)mf_rng_u32(&fpo) << 32;
            draws[n] |= mf_rng_u32(&fpo);
        }
        if (!inds)
            continue;
        mf_rng_normal(&chain, a->eps + (size_t)n * K * D, K * D);
        int32_t drawn = s->denoise == MF_SINGLE ? (int32_t)mf_rng_below(&index, choices) : 0;
        for (int k = 0; k < a->K; k++)
            inds[n * a->K + k] = s->denoise == MF_SINGLE ? drawn : k;
    }
}

static bool critic(const struct mf_actor *a)
{
    return a->policy && a->policy->spec.n_critic > 0;
}

static int act(struct mf_actor *a, size_t t, struct mf_err *err)
{
    const struct mf_columns *q = &a->columns;
    if (!a->policy)
        return mf_vec_expert(a->vec, mf_columns_at(q, a->id.actions, t), err);
    const bool chain = mf_policy_scores_chain(&a->policy->spec), scored = a->policy->spec.steer != MF_STEER_SAC;
    int32_t *inds = chain ? mf_columns_at(q, a->id.inds, t) : NULL;
    uint64_t *draws = mf_policy_is_fpo(&a->policy->spec) ? mf_columns_at(q, a->id.draws, t) : NULL;
    draw(a, inds, draws);
    struct mf_sample x = {.obs = a->history,
                          .noise = a->noise,
                          .eps = a->eps,
                          .inds = inds,
                          .draws = draws,
                          .chains = chain ? mf_columns_at(q, a->id.chains, t) : NULL,
                          .samples = chain ? NULL : mf_columns_at(q, a->id.samples, t),
                          .logprobs = scored ? mf_columns_at(q, a->id.logprobs, t) : NULL,
                          .values = critic(a) ? mf_columns_at(q, a->id.values, t) : NULL,
                          .actions = mf_columns_at(q, a->id.actions, t),
                          .encoding = a->encoding >= 0 ? mf_columns_at(q, a->id.obs[a->encoding], t) : NULL};
    return mf_sampler_run(a->sampler, a->N, &x, err);
}

/* V of the last observation of an episode that was truncated. */
static int value_final(struct mf_actor *a, const struct mf_decision *d, size_t t, struct mf_err *err)
{
    float *final_values = mf_columns_at(&a->columns, a->id.final_values, t);
    const size_t O = (size_t)a->O, To = (size_t)a->To;
    bool any = false;
    memcpy(a->final_history, a->history, (size_t)a->N * (size_t)(a->To * a->O) * sizeof *a->history);
    for (int n = 0; n < a->N; n++) {
        if (!d->truncated[n] || d->terminated[n])
            continue;
        mf_window_follow(a->final_history + (size_t)n * To * O, To, O, d, n, d->final_obs + (size_t)n * O);
        any = true;
    }
    int rc = any ? mf_sampler_values(a->sampler, a->N, a->final_history, a->values, err) : 0;
    for (int n = 0; any && rc == 0 && n < a->N; n++)
        if (d->truncated[n] && !d->terminated[n])
            final_values[n] = a->values[n];
    return rc;
}

/* The server of environment n died, and its episode is void: the episode's rows in this rollout are no transitions. */
static void drop_episode(struct mf_actor *a, size_t t, size_t n)
{
    const struct mf_columns *q = &a->columns;
    while (t-- > 0) {
        uint8_t *valid = mf_columns_at(q, a->id.valid, t), *terminated = mf_columns_at(q, a->id.terminated, t),
                *truncated = mf_columns_at(q, a->id.truncated, t);
        const int32_t *n_exec = mf_columns_at(q, a->id.n_exec, t);
        if (terminated[n] || truncated[n])
            return;
        a->global_step -= valid[n] ? n_exec[n] : 0;
        valid[n] = 0;
        if (a->policy)
            ((uint8_t *)mf_columns_at(q, a->id.loss_mask, t))[n] = 0;
    }
}

static void record(struct mf_actor *a, const struct mf_decision *d, size_t t)
{
    const struct mf_columns *q = &a->columns;
    size_t N = (size_t)a->N;
    uint8_t *valid = mf_columns_at(q, a->id.valid, t);
    memcpy(mf_columns_at(q, a->id.rewards, t), d->rewards, N * (size_t)a->C * sizeof(float));
    memcpy(mf_columns_at(q, a->id.n_exec, t), d->n_exec, N * sizeof(int32_t));
    memcpy(mf_columns_at(q, a->id.terminated, t), d->terminated, N);
    memcpy(mf_columns_at(q, a->id.truncated, t), d->truncated, N);
    for (size_t n = 0; n < N; n++) {
        valid[n] = d->n_exec[n] > 0;
        a->global_step += d->n_exec[n];
        if (d->lost[n])
            drop_episode(a, t, n);
        if (valid[n] && (d->terminated[n] || d->truncated[n])) {
            const double ret = (double)d->episode_return[n];
            mf_tally_add(&a->ended, ret, d->episode_length[n], d->episode_success[n]);
            mf_episodes_end(&a->episodes, (int)n, ret, d->episode_length[n], d->episode_success[n]);
            ((uint8_t *)mf_columns_at(q, a->id.success, t))[n] = d->episode_success[n];
        }
        if (d->fresh[n])
            mf_episodes_begin(&a->episodes, (int)n);
    }
    mf_episodes_tick(&a->episodes);
    if (a->policy)
        memcpy(mf_columns_at(q, a->id.loss_mask, t), valid, N);
}

/* Called once the rollout is complete: drop_episode may void rows until then. */
static void scale_rewards(struct mf_actor *a, size_t t)
{
    const struct mf_columns *q = &a->columns;
    const float *rewards = mf_columns_at(q, a->id.rewards, t);
    const uint8_t *valid = mf_columns_at(q, a->id.valid, t), *terminated = mf_columns_at(q, a->id.terminated, t),
                  *truncated = mf_columns_at(q, a->id.truncated, t);
    for (int n = 0; n < a->N; n++) {
        a->over[n] = terminated[n] || truncated[n];
        a->chunk_reward[n] = 0;
        for (int k = 0; k < a->C; k++)
            a->chunk_reward[n] += rewards[n * a->C + k];
    }
    mf_scale_step(&a->scale, (size_t)a->N, a->opts.gamma, a->chunk_reward, valid, a->over, a->running,
                  mf_columns_at(q, a->id.scaled, t));
}

static int decide(struct mf_actor *a, size_t t, struct mf_err *err)
{
    struct mf_decision d;
    record_obs(a, t);
    if (grouped(a))
        record_group(a, t);
    if (mf_vec_task(a->vec))
        memcpy(mf_columns_at(&a->columns, a->id.task, t), mf_vec_task(a->vec), (size_t)a->N * sizeof(int32_t));
    int rc = act(a, t, err);
    if (rc ||
        (rc = mf_vec_step(a->vec, mf_columns_at(&a->columns, a->id.actions, t), a->C, a->policy != NULL, &d, err)) ||
        (critic(a) && (rc = value_final(a, &d, t, err))))
        return rc;
    record(a, &d, t);
    observe(a, &d, d.obs);
    return 0;
}

/* Logs the duration of a long round, once: the user should not take it for a hang. */
static void announce(struct mf_actor *a, int decisions, double seconds)
{
    if (a->announced || !a->policy || seconds < ANNOUNCE_AFTER)
        return;
    a->announced = true;
    const double whole = seconds / decisions * a->opts.T;
    if (whole > ROUND_IS_LONG)
        mf_log(MF_LOG_INFO, "a round of %d decisions in %d environments takes about %.0f s", a->opts.T, a->N, whole);
}

/* New episodes everywhere, of one number, so that every group begins its episodes together. */
static int restart(struct mf_actor *a, const float **obs, struct mf_err *err)
{
    const int32_t *episode = mf_vec_episode(a->vec);
    int32_t *next, last = 0;
    int rc = mf_alloc((void **)&next, (size_t)a->N * sizeof *next, "the environments' episodes", err);
    for (int n = 0; rc == 0 && n < a->N; n++)
        last = episode[n] > last ? episode[n] : last;
    for (int n = 0; rc == 0 && n < a->N; n++)
        next[n] = last + 1;
    if (rc == 0 && (rc = mf_vec_reset(a->vec, next, obs, err)) == 0) {
        mf_episodes_restart(&a->episodes);
        memset(a->running, 0, (size_t)a->N * sizeof *a->running);
    }
    free(next);
    return rc;
}

/* Environments go on where the last rollout left them; those of groups start new episodes. */
static int begin(struct mf_actor *a, struct mf_err *err)
{
    const float *obs;
    if (a->started && !grouped(a))
        return 0;
    int rc = a->started ? restart(a, &obs, err) : mf_vec_reset(a->vec, NULL, &obs, err);
    if (rc == 0)
        observe(a, NULL, obs);
    a->started |= rc == 0;
    return rc;
}

int mf_actor_rollout(struct mf_actor *a, struct mf_err *err)
{
    const double since = mf_now();
    mf_columns_clear(&a->columns);
    a->ended = (struct mf_tally){.n = 0};
    int rc = begin(a, err);
    if (rc)
        return rc;
    const bool marks = a->policy && a->policy->spec.steer == MF_STEER_SAC;
    if (marks)
        mark(a, a->id.begins);
    for (int t = 0; t < a->opts.T; t++) {
        if ((rc = decide(a, (size_t)t, err)) || (rc = mf_stop_check(err)))
            return rc;
        if (mf_stop_signal())
            return 1;
        announce(a, t + 1, mf_now() - since);
    }
    if (marks)
        mark(a, a->id.ends);
    a->counted = mf_episodes_count(&a->episodes);
    for (int t = 0; a->policy && a->opts.reward_scale && t < a->opts.T; t++)
        scale_rewards(a, (size_t)t);
    return critic(a)
               ? mf_sampler_values(a->sampler, a->N, a->history, mf_columns_at(&a->columns, a->id.last_values, 0), err)
               : 0;
}
