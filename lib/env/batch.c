#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "env/served_priv.h"
#include "env/stepper.h"

/* A decision, a reset, a load: one request to each server, in parallel, then one reply from each. */
struct batch {
    struct mf_served *s;
    struct mf_slots *r; /* of the current call, like the following */
    int n_servers;
    struct mf_resizer pictures; /* the observations as the servers have them */
    uint8_t *which;             /* (N) */
    const float *actions;
    bool autoreset;
    void **state; /* (N) what save fills */
    const void *const *saved;
    size_t *size;
};

struct question {
    const char *say;
    int (*fill)(const struct batch *b, const struct mf_server *w, struct mf_frame *f, struct mf_err *err);
    int (*take)(struct batch *b, const struct mf_server *w, const struct mf_frame *f, struct mf_err *err);
};

/* ---- requests and replies ---- */

/* Number of the server's environments that are filmed, its first ones. */
static int filmed(const struct batch *b, const struct mf_server *w)
{
    const int n = b->r->o.watch.n - b->r->o.first_env - w->first;
    return n < 0 ? 0 : n > w->count ? w->count : n;
}

static int fill_make(const struct batch *b, const struct mf_server *w, struct mf_frame *f, struct mf_err *err)
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
static int fill_episodes(const struct batch *b, const struct mf_server *w, int next, struct mf_frame *f,
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

static int fill_reset(const struct batch *b, const struct mf_server *w, struct mf_frame *f, struct mf_err *err)
{
    size_t n = (size_t)w->count;
    int rc = mf_talk_put(f, "which", MF_U8, 1, &n, b->which + w->first, err);
    return rc ? rc : fill_episodes(b, w, b->autoreset, f, err);
}

/* Passes the images of a reply, C per filmed environment, to the observer: those of executed control steps; after a
 * reset (C 1) those of environments that started an episode. */
static int take_pictures(const struct batch *b, const struct mf_server *w, const struct mf_frame *f, int C,
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
static int take_tasks(struct batch *b, const struct mf_server *w, const struct mf_frame *f, bool all,
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

static int take_reset(struct batch *b, const struct mf_server *w, const struct mf_frame *f, struct mf_err *err)
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

static int fill_step(const struct batch *b, const struct mf_server *w, struct mf_frame *f, struct mf_err *err)
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
static int check_row(const struct batch *b, const struct mf_server *w, int env, struct mf_err *err)
{
    const struct mf_slots *r = b->r;
    bool over = r->terminated[env] || r->truncated[env];
    int n = r->n_exec[env];
    if (n == r->C || (over && n > 0 && n < r->C) || (b->s->autoreset == MF_NEXT_STEP && n == 0 && !over))
        return 0;
    return mf_err_set(err, MF_EFORMAT, "%s: n_exec[%d] is %d of %d actions%s", mf_rpc_name(w->call), env - w->first, n,
                      r->C, over ? "" : ", and the episode did not end");
}

static int take_step(struct batch *b, const struct mf_server *w, const struct mf_frame *f, struct mf_err *err)
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

static int fill_nothing(const struct batch *b, const struct mf_server *w, struct mf_frame *f, struct mf_err *err)
{
    (void)b, (void)w, (void)f, (void)err;
    return 0;
}

static int take_nothing(struct batch *b, const struct mf_server *w, const struct mf_frame *f, struct mf_err *err)
{
    (void)b, (void)w, (void)f, (void)err;
    return 0;
}

static int take_states(struct batch *b, const struct mf_server *w, const struct mf_frame *f, struct mf_err *err)
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

static int fill_states(const struct batch *b, const struct mf_server *w, struct mf_frame *f, struct mf_err *err)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < w->count; i++) {
        char name[32];
        snprintf(name, sizeof name, "state/%d", i);
        rc = mf_talk_put(f, name, MF_U8, 1, &b->size[w->first + i], b->saved[w->first + i], err);
    }
    return rc;
}

static int take_loaded(struct batch *b, const struct mf_server *w, const struct mf_frame *f, struct mf_err *err)
{
    int rc = mf_talk_get_obs(f, "obs", &b->r->o.obs, &b->pictures, w->count,
                             b->r->obs + (size_t)w->first * (size_t)b->r->O, err);
    return rc ? rc : take_tasks(b, w, f, true, err);
}

static const struct question make = {"make", fill_make, take_nothing}, reset = {"reset", fill_reset, take_reset},
                             step = {"step", fill_step, take_step}, save = {"save", fill_nothing, take_states},
                             load = {"load", fill_states, take_loaded};

/* ---- asking ---- */

static int ask(struct batch *b, struct mf_server *w, const struct question *q, struct mf_err *err)
{
    struct mf_frame *f = mf_server_question(w, q->say);
    int rc = q->fill(b, w, f, err);
    if (rc) {
        mf_frame_free(f);
        return rc;
    }
    return mf_server_ask(b->s, w, f, err);
}

static int hear(struct batch *b, struct mf_server *w, const struct question *q, struct mf_err *err)
{
    struct mf_frame *f;
    int rc = mf_server_answer(b->s, w, &f, err);
    if (rc)
        return rc;
    if ((rc = q->take(b, w, f, err)))
        mf_err_at(err, "environment server %d (%s), asked to %s", (int)(w - b->s->server), mf_rpc_name(w->call),
                  q->say);
    mf_frame_free(f);
    return rc;
}

/* Server w was replaced: the unfinished episodes of its environments are discarded. */
static void lose(struct batch *b, const struct mf_server *w, const struct question *q)
{
    struct mf_slots *r = b->r;
    for (int n = w->first; n < w->first + w->count; n++) {
        bool over = r->terminated[n] || r->truncated[n];
        if (r->C == 0 || r->idle[n] || (q == &reset && over))
            continue;
        r->lost[n] = b->which[n] = true;
        r->n_exec[n] = 0;
        memset(r->rewards + n * r->C, 0, (size_t)r->C * sizeof *r->rewards);
        memset(r->success + n * r->C, 0, (size_t)r->C);
    }
}

static int recover(struct batch *b, struct mf_server *w, const struct question *q, struct mf_err *err)
{
    const struct question *again = q == &step ? &reset : q;
    int rc;
    lose(b, w, q);
    do {
        if ((rc = mf_server_revive(b->s, w, err)))
            return rc;
        if ((rc = ask(b, w, &make, err)) == 0 && (rc = hear(b, w, &make, err)) == 0 && again != &make &&
            (rc = ask(b, w, again, err)) == 0)
            rc = hear(b, w, again, err);
    } while (mf_served_is_fault(rc));
    return rc;
}

static bool concerns(const struct batch *b, const struct mf_server *w, const struct question *q)
{
    return q != &reset || memchr(b->which + w->first, 1, (size_t)w->count);
}

static int ask_all(struct batch *b, const struct question *q, struct mf_err *err)
{
    struct mf_server *server = b->s->server;
    for (int i = 0; i < b->n_servers; i++)
        if (concerns(b, &server[i], q))
            server[i].rc = ask(b, &server[i], q, &server[i].fault);
    for (int i = 0; i < b->n_servers; i++) {
        if (!concerns(b, &server[i], q))
            continue;
        *err = server[i].fault;
        int rc = server[i].rc ? server[i].rc : hear(b, &server[i], q, err);
        if (mf_served_is_fault(rc) && q != &make) /* a restart does not help if `make` itself fails */
            rc = recover(b, &server[i], q, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* ---- the stepper ---- */

static int reset_rows(void *self, struct mf_slots *r, const uint8_t *which, struct mf_err *err)
{
    struct batch *b = self;
    b->r = r;
    b->autoreset = false;
    for (int n = 0; n < r->N; n++)
        b->which[n] = !which || which[n];
    return ask_all(b, &reset, err);
}

static int step_rows(void *self, struct mf_slots *r, const float *actions, bool autoreset, struct mf_err *err)
{
    struct batch *b = self;
    b->r = r;
    b->actions = actions;
    b->autoreset = autoreset;
    memset(b->which, 0, (size_t)r->N);
    int rc = ask_all(b, &step, err);
    if (rc || b->s->autoreset != MF_DISABLED || !autoreset)
        return rc;
    for (int n = 0; n < r->N; n++)
        b->which[n] = !r->idle[n] && (r->terminated[n] || r->truncated[n]);
    return ask_all(b, &reset, err);
}

static int expert(void *self, const struct mf_slots *r, float *actions, struct mf_err *err)
{
    (void)self, (void)actions;
    return mf_err_set(err, MF_EUSAGE, "environment %s has no scripted expert: another process steps it",
                      r->o.env->name);
}

/* The next step notices a dead server and marks its environments as lost. */
static int save_rows(void *self, const struct mf_slots *r, void **state, size_t *size, struct mf_err *err)
{
    struct batch *b = self;
    struct mf_err fault;
    int rc = 0;
    b->state = state;
    b->size = size;
    (void)r;
    for (int i = 0; b->s->saves && rc == 0 && i < b->n_servers; i++) {
        struct mf_server *w = &b->s->server[i];
        rc = ask(b, w, &save, &fault);
        rc = rc ? rc : hear(b, w, &save, &fault);
        if (mf_served_is_fault(rc))
            rc = 0;
    }
    if (rc)
        *err = fault;
    return rc;
}

static int load_rows(void *self, struct mf_slots *r, const void *const *state, const size_t *size, struct mf_err *err)
{
    struct batch *b = self;
    b->r = r;
    b->saved = state;
    b->size = (size_t *)size;
    return ask_all(b, &load, err);
}

static void free_batch(void *self)
{
    struct batch *b = self;
    mf_resizer_release(&b->pictures);
    free(b->which);
    free(b);
}

static const struct mf_stepper_kind kind = {reset_rows, step_rows, expert, save_rows, load_rows, free_batch};

/* The observed keys with the servers' sizes of pictures. */
static struct mf_layout sent(const struct mf_slots *r)
{
    struct mf_layout l = {0};
    for (int i = 0; i < r->o.obs.n; i++) {
        const struct mf_obs *o = &r->o.obs.key[i], *own = &r->o.env->obs[mf_env_key(r->o.env, o->name)];
        mf_layout_add(&l, mf_obs_is_resizable(o) ? own : o);
    }
    return l;
}

int mf_served_new(struct mf_stepper *out, const struct mf_slots *r, struct mf_err *err)
{
    struct batch *b = mf_xcalloc(1, sizeof *b);
    struct mf_slots rows = *r; /* checked by make */
    b->s = r->o.env->served;
    b->r = &rows;
    b->which = mf_xcalloc((size_t)r->N, 1);
    const struct mf_layout from = sent(r);
    int rc = mf_resizer_init(&b->pictures, &from, &r->o.obs, r->o.turn, err);
    rc = rc ? rc : mf_served_start(b->s, r->N, &b->n_servers, err);
    for (int i = 0; rc == 0 && i < b->n_servers; i++) {
        int64_t first = (int64_t)r->N * i / b->n_servers, end = (int64_t)r->N * (i + 1) / b->n_servers;
        b->s->server[i].first = (int)first;
        b->s->server[i].count = (int)(end - first);
    }
    if (rc == 0)
        rc = ask_all(b, &make, err);
    if (rc)
        free_batch(b);
    else
        *out = (struct mf_stepper){&kind, b};
    return rc;
}
