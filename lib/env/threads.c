#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/workers.h"
#include "env/stepper.h"

struct artist { /* of one worker: what draws its pictures, and the first failure */
    void *painter;
    int rc;
    struct mf_err err;
};

struct threads {
    const struct mf_env *env;
    int N;
    void *model;
    void **state, **memory; /* (N) an environment's, and its expert's */
    struct mf_layout low;   /* observations of the expert */
    float *seen;
    struct mf_workers *workers;
    struct artist *artist; /* (workers) NULL: no pictures */
    char *past;            /* (N, trail + 1) states of a decision; NULL: no trail, or no pictures */
    size_t state_size;
    /* the call's own */
    struct mf_slots *r;
    const uint8_t *which;
    const float *actions;
    bool autoreset;
    void (*act)(const struct threads *t, int n, struct artist *a);
    atomic_int next;
};

/* ---- every environment once, on the next free worker ---- */

static void work(void *self, int worker)
{
    struct threads *t = self;
    for (int n; (n = atomic_fetch_add(&t->next, 1)) < t->N;)
        t->act(t, n, t->artist ? &t->artist[worker] : NULL);
}

static int each(struct threads *t, void (*act)(const struct threads *t, int n, struct artist *a), struct mf_err *err)
{
    t->act = act;
    atomic_store(&t->next, 0);
    mf_workers_run(t->workers, work, t);
    for (int i = 0; t->artist && i < mf_workers_count(t->workers); i++)
        if (t->artist[i].rc) {
            *err = t->artist[i].err;
            return t->artist[i].rc;
        }
    return 0;
}

static void observe(const struct threads *t, int n, struct artist *a, float *to)
{
    mf_env_observe(t->env, t->state[n], &t->r->o.obs, to);
    if (a && !a->rc)
        a->rc = t->env->picture(t->state[n], &a->painter, &t->r->o.obs, to, &a->err);
}

static float *obs_of(const struct threads *t, int n)
{
    return t->r->obs + (size_t)n * (size_t)t->r->O;
}

static void watch(const struct threads *t, int n)
{
    const struct mf_vec_opts *o = &t->r->o;
    if (o->first_env + n < o->watch.n)
        o->watch.state(o->watch.self, o->first_env + n, t->state[n]);
}

static void begin(const struct threads *t, int n, int32_t episode, struct artist *a)
{
    struct mf_rng rng = mf_slots_reset_rng(t->r, n, episode);
    memset(t->memory[n], 0, t->env->expert_size);
    if (t->env->language.assign) {
        t->r->task[n] = mf_slots_task(t->r, n, episode);
        t->env->language.assign(t->state[n], t->r->task[n]);
    }
    t->env->reset(t->state[n], &rng);
    watch(t, n);
    observe(t, n, a, obs_of(t, n));
}

static void reset_one(const struct threads *t, int n, struct artist *a)
{
    if (!t->which || t->which[n])
        begin(t, n, t->r->episode[n], a);
}

static int reset(void *self, struct mf_slots *r, const uint8_t *which, struct mf_err *err)
{
    struct threads *t = self;
    t->r = r;
    t->which = which;
    return each(t, reset_one, err);
}

/* ---- a decision ---- */

/* Place i of the newest `trail` rows of n: the oldest one leaves where all are taken. */
static char *make_room(const struct threads *t, int n, char *rows, size_t row)
{
    struct mf_slots *r = t->r;
    if (r->n_trail[n] < r->o.trail)
        return rows + (size_t)r->n_trail[n]++ * row;
    memmove(rows, rows + row, (size_t)(r->o.trail - 1) * row);
    return rows + (size_t)(r->o.trail - 1) * row;
}

static char *past_of(const struct threads *t, int n)
{
    return t->past + (size_t)n * (size_t)(t->r->o.trail + 1) * t->state_size;
}

static float *trail_of(const struct threads *t, int n)
{
    return t->r->trail + (size_t)n * (size_t)t->r->o.trail * (size_t)t->r->O;
}

/* Keeps the newest observations from within a decision. With pictures, whose drawing costs more than a step, it keeps
 * the states, since the next step may replace the observation. */
static void keep(const struct threads *t, int n)
{
    if (t->past)
        t->env->save(t->state[n], make_room(t, n, past_of(t, n), t->state_size));
    else
        observe(t, n, NULL, (float *)make_room(t, n, (char *)trail_of(t, n), (size_t)t->r->O * sizeof(float)));
}

/* Observes the states kept, and returns to the present one. */
static void develop(const struct threads *t, int n, struct artist *a)
{
    const struct mf_slots *r = t->r;
    char *past = past_of(t, n), *now = past + (size_t)r->o.trail * t->state_size;
    if (r->n_trail[n] == 0)
        return;
    t->env->save(t->state[n], now);
    for (int i = 0; i < r->n_trail[n]; i++) {
        t->env->load(t->state[n], past + (size_t)i * t->state_size);
        observe(t, n, a, trail_of(t, n) + (size_t)i * (size_t)r->O);
    }
    t->env->load(t->state[n], now);
}

static void step_one(const struct threads *t, int n, struct artist *a)
{
    struct mf_slots *r = t->r;
    size_t row = (size_t)n, O = (size_t)r->O, A = (size_t)r->A, C = (size_t)r->C;
    struct mf_env_step s = {0};
    if (r->idle[n])
        return;
    for (size_t c = 0; c < C && !s.terminated && !s.truncated; c++) {
        if (c > 0 && r->o.trail)
            keep(t, n);
        s = t->env->step(t->state[n], t->actions + (row * C + c) * A);
        r->rewards[row * C + c] = s.reward;
        r->success[row * C + c] = s.success;
        r->n_exec[n]++;
        watch(t, n);
    }
    r->terminated[n] = s.terminated;
    r->truncated[n] = s.truncated && !s.terminated;
    observe(t, n, a, obs_of(t, n));
    if (t->past)
        develop(t, n, a);
    if (!s.terminated && !s.truncated)
        return;
    memcpy(r->final_obs + row * O, r->obs + row * O, O * sizeof *r->obs);
    if (t->autoreset) {
        begin(t, n, r->episode[n] + 1, a);
        r->fresh[n] = true;
    }
}

static int step(void *self, struct mf_slots *r, const float *actions, bool autoreset, struct mf_err *err)
{
    struct threads *t = self;
    t->r = r;
    t->actions = actions;
    t->autoreset = autoreset;
    return each(t, step_one, err);
}

static int expert(void *self, const struct mf_slots *r, float *actions, struct mf_err *err)
{
    struct threads *t = self;
    if (!t->env->expert)
        return mf_err_set(err, MF_EUSAGE, "environment %s has no scripted expert", t->env->name);
    for (int n = 0; n < t->N; n++) {
        struct mf_rng rng = mf_rng_at(r->o.seed, MF_RNG_EXPERT, (uint32_t)(r->o.first_env + n), (uint32_t)r->episode[n],
                                      (uint32_t)r->clock[n]);
        if (r->idle[n])
            continue;
        mf_env_observe(t->env, t->state[n], &t->low, t->seen);
        t->env->expert(t->state[n], t->memory[n], r->o.expert_error, &rng, t->seen, actions + (size_t)n * (size_t)r->A);
    }
    return 0;
}

/* ---- states: the expert's memory, then the environment's own ---- */

static int save(void *self, const struct mf_slots *r, void **state, size_t *size, struct mf_err *err)
{
    struct threads *t = self;
    size_t expert_size = t->env->expert_size;
    (void)r;
    for (int n = 0; n < t->N; n++) {
        size[n] = expert_size + t->env->state_size(t->state[n]);
        int rc = mf_alloc(&state[n], size[n], "an environment's state", err);
        if (rc)
            return rc;
        memcpy(state[n], t->memory[n], expert_size);
        t->env->save(t->state[n], (char *)state[n] + expert_size);
    }
    return 0;
}

static void observe_one(const struct threads *t, int n, struct artist *a)
{
    observe(t, n, a, obs_of(t, n));
}

static int load(void *self, struct mf_slots *r, const void *const *state, const size_t *size, struct mf_err *err)
{
    struct threads *t = self;
    size_t expert_size = t->env->expert_size;
    t->r = r;
    for (int n = 0; n < t->N; n++) {
        if (size[n] != expert_size + t->env->state_size(t->state[n]))
            return mf_err_set(err, MF_EFORMAT, "a saved state of %zu bytes is not one of environment %s (%zu bytes)",
                              size[n], t->env->name, expert_size + t->env->state_size(t->state[n]));
        memcpy(t->memory[n], state[n], expert_size);
        t->env->load(t->state[n], (const char *)state[n] + expert_size);
        if (t->env->language.task)
            r->task[n] = t->env->language.task(t->state[n]);
    }
    return each(t, observe_one, err);
}

/* ---- life ---- */

static void put_painter_away(void *self, int worker) /* on its own thread */
{
    struct threads *t = self;
    if (t->artist[worker].painter)
        t->env->end_paint(t->artist[worker].painter);
}

static void free_threads(void *self)
{
    struct threads *t = self;
    if (t->artist)
        mf_workers_run(t->workers, put_painter_away, t);
    mf_workers_free(t->workers);
    for (int n = 0; n < t->N; n++) {
        if (t->state[n])
            t->env->release(t->state[n]);
        free(t->memory[n]);
    }
    if (t->env->close && t->model)
        t->env->close(t->model);
    free(t->state);
    free(t->memory);
    free(t->seen);
    free(t->artist);
    free(t->past);
    free(t);
}

static const struct mf_stepper_kind kind = {reset, step, expert, save, load, free_threads};

static int prepare_pictures(struct threads *t, int trail, struct mf_err *err)
{
    t->artist = mf_xcalloc((size_t)mf_workers_count(t->workers), sizeof *t->artist);
    t->state_size = t->env->state_size(t->state[0]);
    return trail ? mf_alloc((void **)&t->past, (size_t)t->N * (size_t)(trail + 1) * t->state_size,
                            "the environments' states", err)
                 : 0;
}

int mf_threads_new(struct mf_stepper *s, const struct mf_slots *r, struct mf_err *err)
{
    const struct mf_env *e = r->o.env;
    struct threads *t = mf_xcalloc(1, sizeof *t);
    t->env = e;
    t->N = r->N;
    t->state = mf_xcalloc((size_t)t->N, sizeof *t->state);
    t->memory = mf_xcalloc((size_t)t->N, sizeof *t->memory);
    mf_env_layout(e, 0, NULL, NULL, &t->low, err);
    t->seen = mf_xcalloc((size_t)t->low.dim, sizeof *t->seen);
    int rc = e->open ? e->open(&t->model, e->file, err) : 0;
    for (int n = 0; rc == 0 && n < t->N; n++) {
        t->memory[n] = mf_xcalloc(1, e->expert_size);
        rc = e->init(&t->state[n], t->model, r->o.max_steps, err);
    }
    if (rc == 0)
        rc = mf_workers_new(&t->workers, r->o.threads > t->N ? t->N : r->o.threads, err);
    if (rc == 0 && mf_env_draws(e, &r->o.obs))
        rc = prepare_pictures(t, r->o.trail, err);
    if (rc)
        free_threads(t);
    else
        *s = (struct mf_stepper){&kind, t};
    return rc;
}
