#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "env/batch_priv.h"

/* Number of the server's environments that are filmed, its first ones. */
static int filmed(const struct mf_served_batch *b, const struct mf_server *w)
{
    const int n = b->r->o.watch.n - b->r->o.first_env - w->first;
    return n < 0 ? 0 : n > w->count ? w->count : n;
}

static int fill_make(const struct mf_served_batch *b, const struct mf_server *w, struct mf_frame *f, struct mf_err *err)
{
    const struct mf_vec_opts *o = &b->r->o;
    mf_frame_set_int(f, "n", w->count);
    mf_frame_set_int(f, "first", o->first_env + w->first);
    if (o->group > 1)
        mf_frame_set_int(f, "group", o->group);
    mf_frame_set_int(f, "film", filmed(b, w));
    mf_frame_set_int(f, "max_steps", o->max_steps);
    mf_frame_set_int(f, "seed", (int64_t)o->seed);
    mf_frame_set_str(f, "purpose", o->reset_purpose == MF_RNG_EVAL_RESET ? "eval" : "train");
    return mf_talk_put_obs(f, "obs", &b->pictures.from, -1, NULL, err);
}

/* The episodes to start, with a seed for each. */
static int fill_episodes(const struct mf_served_batch *b, const struct mf_server *w, int next, struct mf_frame *f,
                         struct mf_err *err)
{
    const struct mf_slots *r = b->r;
    size_t n = (size_t)w->count;
    void *episode, *seed;
    if (mf_frame_add(f, "episode", MF_I32, 1, &n, &episode, err) || mf_frame_add(f, "seed", MF_U32, 1, &n, &seed, err))
        return err->code;
    for (size_t i = 0; i < n; i++) {
        int env = w->first + (int)i, e = r->episode[env] + next;
        struct mf_rng rng = mf_slots_reset_rng(r, env, e);
        ((int32_t *)episode)[i] = e;
        ((uint32_t *)seed)[i] = mf_rng_u32(&rng);
    }
    return 0;
}

static int fill_reset(const struct mf_served_batch *b, const struct mf_server *w, struct mf_frame *f,
                      struct mf_err *err)
{
    size_t n = (size_t)w->count;
    int rc = mf_talk_put(f, "which", MF_U8, 1, &n, b->which + w->first, err);
    return rc ? rc : fill_episodes(b, w, b->autoreset, f, err);
}

/* Passes the images of a reply, C per filmed environment, to the observer: those of executed control steps; after a
 * reset (C 1) those of environments that started an episode. */
static int take_pictures(const struct mf_served_batch *b, const struct mf_server *w, const struct mf_frame *f, int C,
                         const int32_t *n_exec, struct mf_err *err)
{
    const struct mf_watch *watch = &b->r->o.watch;
    const int n = filmed(b, w);
    const uint8_t *rgb;
    int width, height, rc = n ? mf_talk_get_pictures(f, n, C, &width, &height, &rgb, err) : 0;
    for (int i = 0; rc == 0 && i < n; i++) {
        const int env = w->first + i, shown = n_exec ? n_exec[env] : b->which[env];
        const size_t size = 3 * (size_t)width * (size_t)height;
        for (int c = 0; rc == 0 && c < shown; c++)
            rc = watch->picture(watch->self, b->r->o.first_env + env, width, height, rgb + (size_t)(i * C + c) * size,
                                err);
    }
    return rc;
}

/* The tasks that the observations of a reply belong to, of those environments that start an episode in it, or of all.
 */
static int take_tasks(struct mf_served_batch *b, const struct mf_server *w, const struct mf_frame *f, bool all,
                      struct mf_err *err)
{
    const size_t n = (size_t)w->count;
    const void *data;
    if (b->s->n_tasks == 0)
        return 0;
    int rc = mf_talk_get(f, "task", MF_I32, 1, &n, &data, err);
    for (int i = 0; i < w->count && rc == 0; i++) {
        const int32_t task = ((const int32_t *)data)[i];
        if (!all && !b->which[w->first + i])
            continue;
        if (task < 0 || task >= b->s->n_tasks)
            return mf_err_set(err, MF_EFORMAT, "task[%d] is %d, and it has %d tasks", i, task, b->s->n_tasks);
        b->r->task[w->first + i] = task;
    }
    return rc;
}

static int take_reset(struct mf_served_batch *b, const struct mf_server *w, const struct mf_frame *f,
                      struct mf_err *err)
{
    struct mf_slots *r = b->r;
    size_t O = (size_t)r->O, n = (size_t)w->count;
    float *rows;
    int rc = mf_alloc((void **)&rows, n * O * sizeof *rows, "observations of a reset", err);
    if (rc)
        return rc;
    rc = mf_talk_get_obs(f, "obs", &r->o.obs, &b->pictures, w->count, rows, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        size_t env = (size_t)w->first + i;
        if (!b->which[env])
            continue;
        memcpy(r->obs + env * O, rows + i * O, O * sizeof *rows);
        r->fresh[env] = true;
    }
    free(rows);
    if (rc || (rc = take_tasks(b, w, f, false, err)))
        return rc;
    return take_pictures(b, w, f, 1, NULL, err);
}

static int fill_step(const struct mf_served_batch *b, const struct mf_server *w, struct mf_frame *f, struct mf_err *err)
{
    const struct mf_slots *r = b->r;
    size_t n = (size_t)w->count, A = (size_t)r->A, row = (size_t)r->C * A, dim[] = {n, (size_t)r->C, A};
    const float *low = b->s->bound, *high = low + A;
    void *actions, *active;
    mf_frame_set_bool(f, "autoreset", b->autoreset);
    if (mf_frame_add(f, "actions", MF_F32, 3, dim, &actions, err) ||
        mf_frame_add(f, "active", MF_U8, 1, dim, &active, err))
        return err->code;
    for (size_t i = 0; i < n; i++) {
        size_t env = (size_t)w->first + i;
        ((uint8_t *)active)[i] = !r->idle[env];
        for (size_t j = 0; j < row; j++)
            ((float *)actions)[i * row + j] = fminf(fmaxf(b->actions[env * row + j], low[j % A]), high[j % A]);
    }
    return fill_episodes(b, w, 1, f, err);
}

/* Checks a row of the reply. */
static int check_row(const struct mf_served_batch *b, const struct mf_server *w, int env, struct mf_err *err)
{
    const struct mf_slots *r = b->r;
    bool over = r->terminated[env] || r->truncated[env];
    int n = r->n_exec[env];
    if (n == r->C || (over && n > 0 && n < r->C) || (b->s->autoreset == MF_NEXT_STEP && n == 0 && !over))
        return 0;
    return mf_err_set(err, MF_EFORMAT, "%s: n_exec[%d] is %d of %d actions%s", mf_rpc_name(w->call), env - w->first, n,
                      r->C, over ? "" : ", and the episode did not end");
}

static int take_step(struct mf_served_batch *b, const struct mf_server *w, const struct mf_frame *f, struct mf_err *err)
{
    struct mf_slots *r = b->r;
    size_t n = (size_t)w->count, C = (size_t)r->C, O = (size_t)r->O, dim[] = {n, C}, first = (size_t)w->first;
    const void *rewards, *success, *n_exec, *terminated, *truncated;
    bool any = false, final = mf_talk_has_obs(f, "final", &r->o.obs);
    if (mf_talk_get(f, "rewards", MF_F32, 2, dim, &rewards, err) ||
        mf_talk_get(f, "success", MF_U8, 2, dim, &success, err) ||
        mf_talk_get(f, "n_exec", MF_I32, 1, dim, &n_exec, err) ||
        mf_talk_get(f, "terminated", MF_U8, 1, dim, &terminated, err) ||
        mf_talk_get(f, "truncated", MF_U8, 1, dim, &truncated, err) ||
        mf_talk_get_obs(f, "obs", &r->o.obs, &b->pictures, w->count, r->obs + first * O, err) ||
        (final && mf_talk_get_obs(f, "final", &r->o.obs, &b->pictures, w->count, r->final_obs + first * O, err)))
        return err->code;
    if (take_tasks(b, w, f, true, err))
        return err->code;
    for (size_t i = 0; i < n; i++) {
        size_t env = first + i;
        if (r->idle[env])
            continue;
        r->terminated[env] = ((const uint8_t *)terminated)[i] != 0;
        r->truncated[env] = ((const uint8_t *)truncated)[i] && !r->terminated[env];
        r->n_exec[env] = ((const int32_t *)n_exec)[i];
        if (check_row(b, w, (int)env, err))
            return err->code;
        memcpy(r->rewards + env * C, (const float *)rewards + i * C, (size_t)r->n_exec[env] * sizeof(float));
        memcpy(r->success + env * C, (const uint8_t *)success + i * C, (size_t)r->n_exec[env]);
        bool over = r->terminated[env] || r->truncated[env];
        r->fresh[env] = b->autoreset && (b->s->autoreset == MF_SAME_STEP ? over : r->n_exec[env] == 0);
        any |= r->fresh[env] && over;
        if (over && !final)
            memcpy(r->final_obs + env * O, r->obs + env * O, O * sizeof(float));
    }
    if (any && !final)
        return mf_err_set(err, MF_EFORMAT, "an episode ended and the next began, without final/KEY arrays");
    return take_pictures(b, w, f, r->C, r->n_exec, err);
}

static int fill_nothing(const struct mf_served_batch *b, const struct mf_server *w, struct mf_frame *f,
                        struct mf_err *err)
{
    (void)b, (void)w, (void)f, (void)err;
    return 0;
}

static int take_nothing(struct mf_served_batch *b, const struct mf_server *w, const struct mf_frame *f,
                        struct mf_err *err)
{
    (void)b, (void)w, (void)f, (void)err;
    return 0;
}

static int take_states(struct mf_served_batch *b, const struct mf_server *w, const struct mf_frame *f,
                       struct mf_err *err)
{
    for (int i = 0; i < w->count; i++) {
        char name[32];
        snprintf(name, sizeof name, "state/%d", i);
        const struct mf_array *a = mf_frame_find(f, name);
        if (!a || a->dtype != MF_U8 || a->rank != 1)
            return mf_err_set(err, MF_EFORMAT, "an answer lacks '%s', a uint8 array", name);
        int rc = mf_alloc(&b->state[w->first + i], a->bytes, "an environment's state", err);
        if (rc)
            return rc;
        memcpy(b->state[w->first + i], a->data, a->bytes);
        b->size[w->first + i] = a->bytes;
    }
    return 0;
}

static int fill_states(const struct mf_served_batch *b, const struct mf_server *w, struct mf_frame *f,
                       struct mf_err *err)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < w->count; i++) {
        char name[32];
        snprintf(name, sizeof name, "state/%d", i);
        rc = mf_talk_put(f, name, MF_U8, 1, &b->size[w->first + i], b->saved[w->first + i], err);
    }
    return rc;
}

static int take_loaded(struct mf_served_batch *b, const struct mf_server *w, const struct mf_frame *f,
                       struct mf_err *err)
{
    int rc = mf_talk_get_obs(f, "obs", &b->r->o.obs, &b->pictures, w->count,
                             b->r->obs + (size_t)w->first * (size_t)b->r->O, err);
    return rc ? rc : take_tasks(b, w, f, true, err);
}

const struct mf_served_question mf_ask_make = {"make", fill_make, take_nothing},
                                mf_ask_reset = {"reset", fill_reset, take_reset},
                                mf_ask_step = {"step", fill_step, take_step},
                                mf_ask_save = {"save", fill_nothing, take_states},
                                mf_ask_load = {"load", fill_states, take_loaded};
