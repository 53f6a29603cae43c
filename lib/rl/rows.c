#include "rl/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rl/rollout_columns.h"
#include "rl/rows_obs.h"
#include "dev/device.h"
#include "flow/fpo.h"
#include "flow/grid.h"

struct round_slice {
    struct mf_rollout r;
    const struct mf_frame *frame;
    const char *src;
    double noise;
};

static int by_src_and_env(const void *a, const void *b)
{
    const struct round_slice *x = a, *y = b;
    int order = strcmp(x->src, y->src);
    return order ? order : (x->r.first_env > y->r.first_env) - (x->r.first_env < y->r.first_env);
}

static int bind_all(struct round_slice *s, const struct mf_policy_spec *spec, unsigned extra,
                    struct mf_frame *const *frames, const double *noise, size_t n, struct mf_err *err)
{
    const unsigned learned = spec->steer == MF_STEER_SAC ? 0 : MF_NEED_ADVANTAGES,
                   need = (mf_policy_scores_chain(spec) ? MF_NEED_CHAINS : MF_NEED_SAMPLES) | learned |
                          (spec->n_critic ? MF_NEED_VALUES : 0) | (extra & MF_ROWS_SUCCESS ? MF_NEED_SUCCESS : 0);
    for (size_t i = 0; i < n; i++) {
        s[i] = (struct round_slice){.frame = frames[i], .src = "", .noise = noise[i]};
        int rc = mf_rollout_bind(&s[i].r, frames[i], need, err);
        if (rc == 0 && mf_frame_has(frames[i], "src"))
            rc = mf_frame_get_str(frames[i], "src", &s[i].src, err);
        if (rc)
            return rc;
    }
    qsort(s, n, sizeof *s, by_src_and_env);
    for (size_t i = 1; i < n; i++) {
        const struct mf_rollout *a = &s[i - 1].r, *b = &s[i].r;
        bool same = !strcmp(s[i - 1].src, s[i].src);
        if (same && b->first_env != a->first_env + (int64_t)a->N)
            return mf_err_set(err, MF_EFORMAT,
                              "round %lld: the slice of environments %lld.. does not follow the one of %lld..",
                              (long long)b->iter, (long long)b->first_env, (long long)a->first_env);
        if (b->T != a->T)
            return mf_err_set(err, MF_EFORMAT, "round %lld: a slice of %zu decisions, another of %zu",
                              (long long)b->iter, a->T, b->T);
        if (b->normalized != a->normalized)
            return mf_err_set(err, MF_EFORMAT, "round %lld: some slices have normalised advantages, some have not",
                              (long long)b->iter);
    }
    return 0;
}

static int check_dims(const struct mf_rollout *r, const struct mf_policy_spec *s, struct mf_err *err)
{
    const struct {
        const char *what;
        size_t got;
        int want;
    } dim[] = {{"denoising steps", mf_policy_scores_chain(s) ? r->K : (size_t)s->K, s->K},
               {"horizon", r->H, s->horizon},
               {"action dim", r->A, s->action_dim},
               {"action width of the network", r->W, mf_action_width(s)},
               {"action chunk", r->C, s->n_action_steps}};
    for (size_t i = 0; i < sizeof dim / sizeof *dim; i++)
        if (dim[i].got != (size_t)dim[i].want)
            return mf_err_set(err, MF_EFORMAT, "rollout %lld: %s %zu, the policy has %d", (long long)r->iter,
                              dim[i].what, dim[i].got, dim[i].want);
    if (s->steer == MF_STEER_SAC && r->rewards_scaled)
        return mf_err_set(err, MF_EUSAGE,
                          "rollout %lld: mf-sac learns from 'rewards' and not from 'rewards_scaled': leave that array "
                          "out (collect.reward_scale=none)",
                          (long long)r->iter);
    if (s->steer == MF_STEER_SAC)
        return 0;
    size_t row = r->prev_logprobs->count / (r->T * r->N);
    if (row != (size_t)mf_logprob_width(s))
        return mf_err_set(err, MF_EFORMAT, "rollout %lld: prev_logprobs has %zu numbers a decision, the objective %d",
                          (long long)r->iter, row, mf_logprob_width(s));
    return 0;
}

static struct mf_rows shape_of(const struct mf_policy_spec *s, unsigned extra)
{
    const bool chain = mf_policy_scores_chain(s), fpo = mf_policy_is_fpo(s), single = chain && s->denoise == MF_SINGLE;
    return (struct mf_rows){.O = s->net.O,
                            .D = s->horizon * mf_action_width(s),
                            .P = !chain   ? 1
                                 : single ? 2
                                          : s->K + 1,
                            .k = fpo      ? s->fpo_draws
                                 : !chain ? 0
                                 : single ? 1
                                          : s->K,
                            .C = s->n_action_steps,
                            .X = s->n_action_steps * s->action_dim,
                            .judged = s->steer == MF_STEER_SAC,
                            .E = mf_logprob_width(s),
                            .single = single,
                            .fpo = fpo,
                            .extra = extra};
}

static void place(struct mf_rows *r, struct mf_arena *a)
{
    const size_t n = r->n;
    r->live = mf_arena_take(a, n, sizeof *r->live);
    mf_rows_place_obs(r, a);
    r->chain = mf_arena_take(a, n * (size_t)r->P * (size_t)r->D, sizeof *r->chain);
    if (r->single && r->extra & MF_ROWS_ENDS)
        r->ends = mf_arena_take(a, n * 2 * (size_t)r->D, sizeof *r->ends);
    if (r->extra & MF_ROWS_SUCCESS)
        r->success = mf_arena_take(a, n, sizeof *r->success);
    r->coef = r->k ? mf_arena_take(a, n * (size_t)r->k * 3, sizeof *r->coef) : NULL;
    r->time = r->single || r->fpo ? mf_arena_take(a, n * (size_t)r->k, sizeof *r->time) : NULL;
    r->noise = r->fpo ? mf_arena_take(a, n * (size_t)(r->k * r->D), sizeof *r->noise) : NULL;
    r->old = mf_arena_take(a, n * (size_t)r->E, sizeof *r->old);
    r->advantage = mf_arena_take(a, n, sizeof *r->advantage);
    r->returns = mf_arena_take(a, n, sizeof *r->returns);
    r->values = mf_arena_take(a, n, sizeof *r->values);
    r->action = r->judged ? mf_arena_take(a, n * (size_t)r->X, sizeof *r->action) : NULL;
    r->end = r->judged ? mf_arena_take(a, n, sizeof *r->end) : NULL;
    r->seen_first = r->judged ? mf_arena_take(a, r->N, sizeof *r->seen_first) : NULL;
    r->seen_last = r->judged ? mf_arena_take(a, r->N, sizeof *r->seen_last) : NULL;
    r->n_exec = mf_arena_take(a, n, sizeof *r->n_exec);
    r->share = mf_arena_take(a, n, sizeof *r->share);
}

int mf_rows_alloc(struct mf_rows *r, struct mf_err *err)
{
    place(r, &r->arena);
    int rc = mf_arena_alloc(&r->arena, "a round", err);
    if (rc == 0)
        place(r, &r->arena);
    return rc;
}

int mf_rows_feed(const struct mf_rows *r, const struct mf_score *s, struct mf_feed feed[MF_ROW_FEEDS])
{
    const struct {
        struct mf_val input;
        const float *base;
        int cols;
    } all[] = {{s->obs, r->obs, r->O},
               {s->chain, r->chain, r->P * r->D},
               {s->coef, r->coef, r->k * 3},
               {s->time, r->time, r->k},
               {s->fpo.noise, r->noise, r->k * r->D}};
    int n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].base)
            feed[n++] = (struct mf_feed){.input = all[i].input, .base = all[i].base, .stride = (size_t)all[i].cols};
    feed[0].direct = r->ranks > 0;
    return n;
}

bool mf_rows_shares(const struct mf_policy_spec *s, int ranks)
{
    return ranks > 1 && mf_rollout_obs_bytes(s) >= MF_SHARED_BYTES;
}

/* Shares of observations come without a copy. */
size_t mf_rows_memory(const struct mf_policy_spec *s, unsigned extra, size_t n, int ranks)
{
    struct mf_rows r = shape_of(s, extra);
    const size_t obs = mf_rollout_obs_bytes(s);
    r.n = n;
    r.ranks = mf_rows_shares(s, ranks) ? ranks : 0;
    r.n_own = r.ranks ? n / (size_t)ranks + 1 : n;
    place(&r, &r.arena);
    return 2 * mf_rollout_bytes(s, n, true) - (r.ranks ? (2 * n - r.n_own) * obs : 0) + r.arena.used;
}

size_t mf_rows_floats(const struct mf_policy_spec *s, int ranks)
{
    const struct mf_rows r = shape_of(s, 0);
    return (size_t)((mf_rows_shares(s, ranks) ? 0 : r.O) + r.P * r.D + r.k * 3 + (r.single || r.fpo ? r.k : 0) +
                    (r.fpo ? r.k * r.D : 0) + r.E) +
           2;
}

static int copy_chain(struct mf_rows *r, const struct mf_rollout *s, const struct mf_policy_spec *spec, double noise,
                      size_t row, size_t at, struct mf_err *err)
{
    size_t D = (size_t)r->D;
    const float *chain = s->chains + at * (s->K + 1) * D;
    const int32_t *inds = s->denoise_inds + at * s->K;
    if (spec->denoise == MF_SINGLE) {
        if (inds[0] < 0 || (size_t)inds[0] >= s->K)
            return mf_err_set(err, MF_EFORMAT, "rollout %lld: denoise_inds %d is no step of 0..%zu", (long long)s->iter,
                              inds[0], s->K - 1);
        memcpy(r->chain + row * 2 * D, chain + (size_t)inds[0] * D, 2 * D * sizeof *chain);
        if (r->ends) {
            memcpy(r->ends + row * 2 * D, chain, D * sizeof *chain);
            memcpy(r->ends + (row * 2 + 1) * D, chain + s->K * D, D * sizeof *chain);
        }
        mf_flow_coef(spec, inds[0], noise, true, r->coef + row * 3);
        r->time[row] = (float)mf_flow_time(spec, inds[0]);
        return 0;
    }
    memcpy(r->chain + row * (s->K + 1) * D, chain, (s->K + 1) * D * sizeof *chain);
    for (size_t k = 0; k < s->K; k++) {
        if (inds[k] != (int32_t)k)
            return mf_err_set(err, MF_EFORMAT, "rollout %lld: denoise_inds are not 0..%zu as joint denoising needs",
                              (long long)s->iter, s->K - 1);
        mf_flow_coef(spec, (int)k, noise, true, r->coef + (row * s->K + k) * 3);
    }
    return 0;
}

static int copy_sample(struct mf_rows *r, const struct mf_rollout *s, const struct mf_policy_spec *spec, size_t row,
                       size_t at, struct mf_err *err)
{
    const size_t D = (size_t)r->D, k = (size_t)r->k;
    memcpy(r->chain + row * D, s->samples + at * D, D * sizeof *r->chain);
    if (!r->fpo)
        return 0;
    if (!s->draws)
        return mf_err_set(err, MF_EFORMAT, "rollout %lld: there is no array 'draws', which policy.objective=fpo needs",
                          (long long)s->iter);
    mf_fpo_draw(spec, s->draws[at],
                &(struct mf_fpo_draws){r->noise + row * k * D, r->time + row * k, r->coef + row * k * 3});
    return 0;
}

/* What critics of actions need: the executed action, its reward, and whether the episode goes on. */
static void copy_action(struct mf_rows *r, const struct mf_rollout *s, const struct mf_policy *p, size_t row, size_t at)
{
    const size_t X = (size_t)r->X, A = (size_t)p->spec.action_dim;
    double reward = 0;
    for (size_t j = 0; j < X; j++)
        r->action[row * X + j] = s->actions[at * X + j] * p->action_scale[j % A] + p->action_offset[j % A];
    for (int c = 0; c < r->n_exec[row]; c++)
        reward += (double)s->rewards[at * s->C + (size_t)c];
    r->returns[row] = (float)reward;
    r->end[row] = s->terminated[at] || s->truncated[at];
}

static int copy_row(struct mf_rows *r, const struct round_slice *s, const struct mf_policy *p, size_t row, size_t at,
                    struct mf_err *err)
{
    const struct mf_rollout *q = &s->r;
    int rc = mf_rows_copy_obs(r, s->frame, q, p, row, at, err);
    if (rc == 0)
        rc = mf_policy_scores_chain(&p->spec) ? copy_chain(r, q, &p->spec, s->noise, row, at, err)
                                              : copy_sample(r, q, &p->spec, row, at, err);
    if (rc)
        return rc;
    r->n_exec[row] = q->n_exec ? q->n_exec[at] : (int32_t)q->C;
    if (r->judged) {
        copy_action(r, q, p, row, at);
        return 0;
    }
    memcpy(r->old + row * (size_t)r->E, (const float *)q->prev_logprobs->data + at * (size_t)r->E,
           (size_t)r->E * sizeof(float));
    r->advantage[row] = q->advantages[at];
    r->returns[row] = q->returns[at];
    r->values[row] = p->spec.n_critic ? q->prev_values[at] : 0;
    return 0;
}

/* An episode that the round cuts does not count as a success. */
static void mark_success(struct mf_rows *r, const struct mf_rollout *q, size_t env, size_t first_row)
{
    bool succeeds = false;
    for (size_t t = q->T; t-- > 0;) {
        const size_t at = t * q->N + env;
        if (q->valid && !q->valid[at])
            continue;
        if (q->terminated[at] || q->truncated[at])
            succeeds = q->success[at];
        r->success[first_row + t] =
            (uint8_t)((succeeds ? MF_ROW_SUCCEEDS : 0) | (q->terminated[at] && q->success[at] ? MF_ROW_ENDS_SO : 0));
    }
}

static int copy_environment(struct mf_rows *r, const struct round_slice *s, size_t env, const struct mf_policy *p,
                            size_t first_row, struct mf_err *err)
{
    const struct mf_rollout *q = &s->r;
    size_t before = r->n_live;
    if (r->judged && q->begins && q->ends) {
        r->seen_first[first_row / r->T] = q->begins[env];
        r->seen_last[first_row / r->T] = q->ends[env];
    }
    if (r->success)
        mark_success(r, q, env, first_row);
    for (size_t t = 0; t < q->T; t++) {
        size_t at = t * q->N + env, row = first_row + t;
        if (q->valid && !q->valid[at])
            continue;
        r->control_steps += q->n_exec ? q->n_exec[at] : (int32_t)q->C;
        if (q->loss_mask && !q->loss_mask[at])
            continue;
        int rc = copy_row(r, s, p, row, at, err);
        if (rc)
            return rc;
        r->live[r->n_live++] = (uint32_t)row;
    }
    for (size_t i = before; i < r->n_live; i++)
        r->share[r->live[i]] = (float)q->T / (float)(r->n_live - before);
    return 0;
}

/* One slice whose observations are shared out is enough: of the others each rank takes as much. */
static void share_out(struct mf_rows *r, const struct round_slice *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i].r.shares > 1) {
            r->rank = s[i].r.share;
            r->ranks = s[i].r.shares;
        }
    for (size_t i = 0; i < n && r->ranks; i++) {
        const size_t decisions = s[i].r.T * s[i].r.N;
        r->n_own += mf_share_first(decisions, r->rank + 1, r->ranks) - mf_share_first(decisions, r->rank, r->ranks);
    }
}

int mf_rows_gather(struct mf_rows *r, const struct mf_policy *p, unsigned extra, const double *noise,
                   struct mf_frame *const *frames, size_t n, struct mf_err *err)
{
    const struct mf_policy_spec *spec = &p->spec;
    struct round_slice *s = mf_xcalloc(n, sizeof *s);
    int rc = bind_all(s, spec, extra, frames, noise, n, err);
    if (rc || (rc = check_dims(&s[0].r, spec, err)))
        goto out;
    *r = shape_of(spec, extra);
    r->T = s[0].r.T;
    r->normalized = s[0].r.normalized;
    for (size_t i = 0; i < n; i++)
        r->N += s[i].r.N;
    r->n = r->T * r->N;
    share_out(r, s, n);
    rc = mf_rows_alloc(r, err);
    r->n_own = 0;
    size_t row = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = check_dims(&s[i].r, spec, err);
        for (size_t env = 0; rc == 0 && env < s[i].r.N; env++, row += r->T)
            rc = copy_environment(r, &s[i], env, p, row, err);
    }
out:
    free(s);
    return rc;
}

int mf_rows_check(const struct mf_policy *p, unsigned extra, size_t T, struct mf_frame *const *frames, size_t n,
                  struct mf_err *err)
{
    struct round_slice *s = mf_xcalloc(n, sizeof *s);
    double *noise = mf_xcalloc(n, sizeof *noise);
    int rc = bind_all(s, &p->spec, extra, frames, noise, n, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = check_dims(&s[i].r, &p->spec, err);
    if (rc == 0 && n && T && s->r.T != T)
        rc = mf_err_set(err, MF_EFORMAT, "round %lld: a slice of %zu decisions, where the head says %zu",
                        (long long)s->r.iter, s->r.T, T);
    free(noise);
    free(s);
    return rc;
}

const float *mf_rows_first(const struct mf_rows *r, size_t row)
{
    return r->ends ? r->ends + row * 2 * (size_t)r->D : r->chain + row * (size_t)(r->P * r->D);
}

const float *mf_rows_last(const struct mf_rows *r, size_t row)
{
    return r->ends ? r->ends + (row * 2 + 1) * (size_t)r->D : r->chain + ((row + 1) * (size_t)r->P - 1) * (size_t)r->D;
}

void mf_rows_release(struct mf_rows *r)
{
    mf_arena_release(&r->arena);
    free(r->correction);
    *r = (struct mf_rows){0};
}
