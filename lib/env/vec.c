#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/shift.h"
#include "env/stepper.h"
#include "env/words.h"

struct mf_vec {
    struct mf_slots r;
    struct mf_stepper s;
    struct account { /* one environment's episode so far */
        float ret;
        bool success, ended; /* ended: no longer in an episode */
    } * account;
    /* (N) results of a decision */
    float *ret;
    int32_t *length;
    uint8_t *success, *step_success;
    int32_t *task;  /* (N) the tasks before the decision; NULL: no observation has tokens */
    float *scratch; /* a picture; NULL: none is shifted */
    struct mf_arena arena;
};

static void place(struct mf_vec *v)
{
    const size_t N = (size_t)v->r.N;
    v->account = mf_arena_take(&v->arena, N, sizeof *v->account);
    v->ret = mf_arena_take(&v->arena, N, sizeof *v->ret);
    v->length = mf_arena_take(&v->arena, N, sizeof *v->length);
    v->success = mf_arena_take(&v->arena, N, 1);
    v->step_success = mf_arena_take(&v->arena, N, 1);
    v->task = v->r.o.env->words && mf_layout_find(&v->r.o.obs, MF_OBS_TOKENS)
                  ? mf_arena_take(&v->arena, N, sizeof *v->task)
                  : NULL;
    v->scratch = v->r.o.shift > 0 && mf_layout_pictures(&v->r.o.obs)
                     ? mf_arena_take(&v->arena, mf_shift_room(&v->r.o.obs), sizeof *v->scratch)
                     : NULL;
}

int mf_vec_new(struct mf_vec **out, const struct mf_vec_opts *o, struct mf_err *err)
{
    struct mf_vec *v = mf_xcalloc(1, sizeof *v);
    int rc = mf_slots_init(&v->r, o, err);
    if (rc == 0)
        rc = o->env->served ? mf_served_new(&v->s, &v->r, err) : mf_threads_new(&v->s, &v->r, err);
    place(v);
    if (rc == 0)
        rc = mf_arena_alloc(&v->arena, "the environments", err);
    if (rc) {
        mf_vec_free(v);
        return rc;
    }
    place(v);
    *out = v;
    return 0;
}

void mf_vec_free(struct mf_vec *v)
{
    if (!v)
        return;
    if (v->s.kind)
        v->s.kind->free(v->s.self);
    mf_slots_release(&v->r);
    mf_arena_release(&v->arena);
    free(v);
}

/* ---- checks for finite input and output ---- */

static bool all_finite(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

static int check_actions(const struct mf_vec *v, const float *actions, int C, struct mf_err *err)
{
    const struct mf_slots *r = &v->r;
    size_t row = (size_t)C * (size_t)r->A;
    for (int n = 0; n < r->N; n++)
        if (!v->account[n].ended && !all_finite(actions + (size_t)n * row, row))
            return mf_err_set(err, MF_EMATH, "an action for environment %d is not finite, in episode %d after %d steps",
                              r->o.first_env + n, r->episode[n], r->clock[n]);
    return 0;
}

static int check_rows(const struct mf_slots *r, struct mf_err *err)
{
    const size_t O = (size_t)r->O, C = (size_t)r->C;
    const struct mf_layout *l = &r->o.obs;
    for (int n = 0; n < r->N; n++) {
        size_t row = (size_t)n;
        const bool read =
            r->truncated[n] && !r->terminated[n]; /* no bootstrap value is needed after a terminal state */
        if (r->idle[n])
            continue;
        if (!mf_layout_finite(l, r->obs + row * O) || (read && !mf_layout_finite(l, r->final_obs + row * O)))
            return mf_err_set(err, MF_EMATH,
                              "environment %d (%s) gave an observation that is not finite, near episode %d",
                              r->o.first_env + n, r->o.env->name, r->episode[n]);
        if (C && !all_finite(r->rewards + row * C, C))
            return mf_err_set(err, MF_EMATH, "environment %d (%s) gave a reward that is not finite, near episode %d",
                              r->o.first_env + n, r->o.env->name, r->episode[n]);
    }
    return 0;
}

/* ---- tokens ---- */

static int speak(const struct mf_vec *v, int task, float *obs, struct mf_err *err)
{
    const struct mf_vec_opts *o = &v->r.o;
    return mf_words_put(o->env, task, &o->obs, &o->state, obs, err);
}

/* Of the next observations. */
static int speak_next(const struct mf_vec *v, struct mf_err *err)
{
    const struct mf_slots *r = &v->r;
    int rc = 0;
    for (int n = 0; n < r->N && v->task && !rc; n++)
        if (!r->idle[n])
            rc = speak(v, r->task[n], r->obs + (size_t)n * (size_t)r->O, err);
    return rc;
}

/* Of all that a decision has observed: what was before an episode's end is of the task before. */
static int speak_decision(const struct mf_vec *v, struct mf_err *err)
{
    const struct mf_slots *r = &v->r;
    const size_t O = (size_t)r->O, most = (size_t)r->o.trail;
    int rc = 0;
    for (int n = 0; n < r->N && v->task && !rc; n++) {
        for (int i = 0; i < r->n_trail[n] && !rc; i++)
            rc = speak(v, v->task[n], r->trail + ((size_t)n * most + (size_t)i) * O, err);
        if (!rc && (r->terminated[n] || r->truncated[n]))
            rc = speak(v, v->task[n], r->final_obs + (size_t)n * O, err);
    }
    return rc ? rc : speak_next(v, err);
}

/* ---- random shift ---- */

/* The observation of environment n after `clock` control steps of an episode. */
static void shift(struct mf_vec *v, int n, int episode, int clock, float *obs)
{
    const struct mf_vec_opts *o = &v->r.o;
    const struct mf_rng rng =
        mf_rng_at(o->seed, MF_RNG_SHIFT, (uint32_t)(o->first_env + n), (uint32_t)episode, (uint32_t)clock);
    mf_shift(&(struct mf_shift){.reach = o->shift}, &o->obs, rng, obs, v->scratch);
}

/* The first observation of every environment's episode. */
static void shift_first(struct mf_vec *v)
{
    for (int n = 0; n < v->r.N && v->scratch; n++)
        shift(v, n, v->r.episode[n], 0, v->r.obs + (size_t)n * (size_t)v->r.O);
}

/* All that a decision has observed; before its episodes and clocks are counted. */
static void shift_decision(struct mf_vec *v, bool autoreset)
{
    struct mf_slots *r = &v->r;
    const size_t O = (size_t)r->O, most = (size_t)r->o.trail;
    for (int n = 0; n < r->N && v->scratch; n++) {
        const int now = r->clock[n] + r->n_exec[n], kept = r->n_trail[n];
        for (int i = 0; i < kept; i++)
            shift(v, n, r->episode[n], now - kept + i, r->trail + ((size_t)n * most + (size_t)i) * O);
        if (r->terminated[n] || r->truncated[n])
            shift(v, n, r->episode[n], now, r->final_obs + (size_t)n * O);
        if (r->fresh[n])
            shift(v, n, r->episode[n] + autoreset, 0, r->obs + (size_t)n * O);
        else if (!r->idle[n])
            shift(v, n, r->episode[n], now, r->obs + (size_t)n * O);
    }
}

/* ---- stepping ---- */

static void open_account(struct mf_vec *v, int n)
{
    v->account[n] = (struct account){0};
    v->r.clock[n] = 0;
    v->r.idle[n] = false;
}

int mf_vec_reset(struct mf_vec *v, const int32_t *episode, const float **obs, struct mf_err *err)
{
    int rc = mf_slots_chunk(&v->r, 0, err);
    for (int n = 0; n < v->r.N; n++) {
        v->r.episode[n] = episode ? episode[n] : 0;
        open_account(v, n);
    }
    if (rc || (rc = v->s.kind->reset(v->s.self, &v->r, NULL, err)) || (rc = speak_next(v, err)))
        return rc;
    shift_first(v);
    *obs = v->r.obs;
    return check_rows(&v->r, err);
}

/* Updates the episode account of environment n after a decision. */
static void keep_account(struct mf_vec *v, int n, bool autoreset)
{
    struct mf_slots *r = &v->r;
    struct account *a = &v->account[n];
    size_t at = (size_t)n * (size_t)r->C;
    bool over = r->terminated[n] || r->truncated[n];
    for (int c = 0; c < r->n_exec[n]; c++) {
        a->ret += r->rewards[at + (size_t)c];
        a->success |= r->success[at + (size_t)c];
    }
    r->clock[n] += r->n_exec[n];
    v->step_success[n] = r->n_exec[n] && r->success[at + (size_t)r->n_exec[n] - 1];
    if (over) {
        v->ret[n] = a->ret;
        v->length[n] = r->clock[n];
        v->success[n] = a->success;
        a->ended = true;
        r->idle[n] = !autoreset;
    }
    if (r->fresh[n]) {
        r->episode[n] += autoreset;
        open_account(v, n);
    }
}

int mf_vec_step(struct mf_vec *v, const float *actions, int C, bool autoreset, struct mf_decision *d,
                struct mf_err *err)
{
    struct mf_slots *r = &v->r;
    int rc = check_actions(v, actions, C, err);
    if (v->task)
        memcpy(v->task, r->task, (size_t)r->N * sizeof *v->task);
    if (rc || (rc = mf_slots_chunk(r, C, err)) || (rc = v->s.kind->step(v->s.self, r, actions, autoreset, err)) ||
        (rc = speak_decision(v, err)) || (rc = check_rows(r, err)))
        return rc;
    shift_decision(v, autoreset);
    for (int n = 0; n < r->N; n++)
        keep_account(v, n, autoreset);
    *d = (struct mf_decision){.rewards = r->rewards,
                              .n_exec = r->n_exec,
                              .terminated = r->terminated,
                              .truncated = r->truncated,
                              .fresh = r->fresh,
                              .lost = r->lost,
                              .final_obs = r->final_obs,
                              .trail = r->trail,
                              .n_trail = r->n_trail,
                              .obs = r->obs,
                              .episode_return = v->ret,
                              .episode_length = v->length,
                              .episode_success = v->success,
                              .step_success = v->step_success};
    return 0;
}

int mf_vec_expert(struct mf_vec *v, float *actions, struct mf_err *err)
{
    memset(actions, 0, (size_t)v->r.N * (size_t)v->r.A * sizeof *actions);
    return v->s.kind->expert(v->s.self, &v->r, actions, err);
}

const int32_t *mf_vec_episode(const struct mf_vec *v)
{
    return v->r.episode;
}

const int32_t *mf_vec_clock(const struct mf_vec *v)
{
    return v->r.clock;
}

const int32_t *mf_vec_task(const struct mf_vec *v)
{
    return v->r.o.env->language.text ? v->r.task : NULL;
}

const struct mf_layout *mf_vec_layout(const struct mf_vec *v)
{
    return &v->r.o.obs;
}

/* ---- save and load: the environment's name, then per environment a record and its state ---- */

struct saved_env {
    int32_t episode, clock;
    float ret;
    uint8_t success, ended, idle, stateless;
    uint64_t size; /* of the state */
};

enum { NAME = 32 };

int mf_vec_save(struct mf_vec *v, void **bytes, size_t *size, struct mf_err *err)
{
    size_t N = (size_t)v->r.N, *sizes = mf_xcalloc(N, sizeof *sizes);
    void **state = mf_xcalloc(N, sizeof *state);
    int rc = v->s.kind->save(v->s.self, &v->r, state, sizes, err);
    *size = NAME + N * sizeof(struct saved_env);
    for (size_t n = 0; n < N; n++)
        *size += sizes[n];
    if (rc == 0)
        rc = mf_alloc(bytes, *size, "the environments' states", err);
    char *at = rc ? NULL : *bytes;
    if (at)
        memcpy(at, v->r.o.env->name, strnlen(v->r.o.env->name, NAME - 1)), at += NAME;
    for (size_t n = 0; n < N; n++) {
        const struct account *a = &v->account[n];
        struct saved_env r = {v->r.episode[n], v->r.clock[n], a->ret,    a->success,
                              a->ended,        v->r.idle[n],  !state[n], sizes[n]};
        if (at) {
            memcpy(at, &r, sizeof r);
            memcpy(at + sizeof r, state[n] ? state[n] : "", sizes[n]);
            at += sizeof r + sizes[n];
        }
        free(state[n]);
    }
    free(state);
    free(sizes);
    return rc;
}

/* The records in `bytes`, and the position of each state; false: incomplete. */
static bool read_records(struct mf_vec *v, const char *at, size_t left, const void **state, size_t *sizes, bool *exact)
{
    if (left < NAME || strncmp(at, v->r.o.env->name, NAME - 1))
        return false;
    at += NAME, left -= NAME;
    for (int n = 0; n < v->r.N; n++) {
        struct saved_env r;
        if (left < sizeof r)
            return false;
        memcpy(&r, at, sizeof r);
        at += sizeof r, left -= sizeof r;
        if (left < r.size || r.episode < 0 || r.episode == INT32_MAX || r.clock < 0)
            return false;
        v->r.episode[n] = r.episode;
        v->r.clock[n] = r.clock;
        v->r.idle[n] = r.idle;
        v->account[n] = (struct account){r.ret, r.success, r.ended};
        state[n] = at;
        sizes[n] = r.size;
        *exact &= !r.stateless;
        at += r.size, left -= r.size;
    }
    return left == 0;
}

int mf_vec_load(struct mf_vec *v, const void *bytes, size_t size, const float **obs, bool *exact, struct mf_err *err)
{
    size_t N = (size_t)v->r.N, *sizes = mf_xcalloc(N, sizeof *sizes);
    const void **state = mf_xcalloc(N, sizeof *state);
    int rc = mf_slots_chunk(&v->r, 0, err);
    *exact = true;
    if (rc == 0 && !read_records(v, bytes, size, state, sizes, exact))
        rc = mf_err_set(err, MF_EFORMAT,
                        "the saved environments (%zu bytes) are not %d of %s; resume with the env.name and "
                        "training.num_envs of the run",
                        size, v->r.N, v->r.o.env->name);
    if (rc == 0 && *exact)
        rc = v->s.kind->load(v->s.self, &v->r, state, sizes, err);
    for (int n = 0; rc == 0 && !*exact && n < v->r.N; n++) {
        v->r.episode[n]++;
        open_account(v, n);
    }
    if (rc == 0 && !*exact && (rc = v->s.kind->reset(v->s.self, &v->r, NULL, err)) == 0)
        shift_first(v);
    free(state);
    free(sizes);
    *obs = v->r.obs;
    return rc || (rc = speak_next(v, err)) ? rc : check_rows(&v->r, err);
}
