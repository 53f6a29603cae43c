#include "env/serve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "env/stepper.h"
#include "env/talk.h"
#include "env/words.h"

enum {
    ENVS_MAX = 1 << 14,                                /* of a server; each may be a simulation of some 100 KiB */
    FIRST_MAX = 1 << 24,                               /* number of its first environment */
    EPISODE_MAX = 1 << 30,                             /* number of an episode */
    ACTIONS_MAX = 1 << 16,                             /* of a decision */
    ANSWER_MAX = MF_FRAME_MAX / 3 / (int)sizeof(float) /* numbers of obs: with final, and what else there is */
};

struct mf_service {
    const struct mf_env *env;
    int threads, image_size;
    struct mf_slots r;
    struct mf_stepper s; /* no kind: nothing was made yet */
};

static void unmake(struct mf_service *v)
{
    if (v->s.kind)
        v->s.kind->free(v->s.self);
    v->s.kind = NULL;
    mf_slots_release(&v->r);
}

/* ---- questions; each fills the answer ---- */

static int hello(struct mf_service *v, const struct mf_frame *q, struct mf_frame *a, struct mf_err *err)
{
    const struct mf_env *e = v->env;
    struct mf_layout all = {0};
    size_t A = (size_t)e->action_dim;
    void *low, *high;
    (void)q;
    for (int i = 0; i < MF_OBS_KEYS && e->obs[i].name[0]; i++)
        mf_layout_add(&all, &e->obs[i]);
    mf_env_side(e, &all, v->image_size);
    mf_frame_set_int(a, "v", MF_TALK_VERSION);
    mf_frame_set_str(a, "name", e->name);
    mf_frame_set_int(a, "max_steps", e->max_steps);
    mf_frame_set_num(a, "control_hz", e->control_hz);
    mf_frame_set_str(a, "autoreset", "same_step");
    mf_frame_set_bool(a, "saves", true);
    mf_frame_set_bool(a, "renders", false);
    if (e->likes)
        mf_frame_set_str(a, "defaults", e->likes);
    char *tasks = mf_words_lines(e);
    if (tasks)
        mf_frame_set_str(a, "tasks", tasks);
    free(tasks);
    if (mf_frame_add(a, "action/low", MF_F32, 1, &A, &low, err) ||
        mf_frame_add(a, "action/high", MF_F32, 1, &A, &high, err))
        return err->code;
    for (size_t i = 0; i < A; i++) {
        ((float *)low)[i] = -1;
        ((float *)high)[i] = 1;
    }
    return mf_talk_put_obs(a, "obs", &all, -1, NULL, err);
}

static int make(struct mf_service *v, const struct mf_frame *q, struct mf_frame *a, struct mf_err *err)
{
    struct mf_vec_opts o = {.env = v->env, .threads = v->threads};
    int64_t n, first, max_steps, seed, group = 1;
    const char *purpose;
    (void)a;
    if (mf_frame_get_int(q, "n", &n, err) || mf_frame_get_int(q, "first", &first, err) ||
        mf_frame_get_int(q, "max_steps", &max_steps, err) || mf_frame_get_int(q, "seed", &seed, err) ||
        mf_frame_get_str(q, "purpose", &purpose, err) || mf_talk_layout(q, "obs", &o.obs, err) ||
        (mf_frame_has(q, "group") && mf_frame_get_int(q, "group", &group, err)))
        return err->code;
    if (group < 1 || group > ENVS_MAX)
        return mf_err_set(err, MF_EUSAGE, "group=%lld is not within 1..%d", (long long)group, ENVS_MAX);
    if (n < 1 || n > ENVS_MAX || first < 0 || first > FIRST_MAX || max_steps < 0 || max_steps > INT32_MAX)
        return mf_err_set(
            err, MF_EUSAGE,
            "n=%lld, first=%lld, max_steps=%lld: a server has 1 to %d environments, numbered from 0 to %d, "
            "and max_steps is not negative",
            (long long)n, (long long)first, (long long)max_steps, ENVS_MAX, FIRST_MAX);
    if (strcmp(purpose, "eval") && strcmp(purpose, "train"))
        return mf_err_set(err, MF_EUSAGE, "purpose is '%.20s', not train or eval", purpose);
    if (n * o.obs.dim > ANSWER_MAX)
        return mf_err_set(err, MF_EUSAGE,
                          "the observations of %lld environments, %d numbers each, do not fit into one answer",
                          (long long)n, o.obs.dim);
    o.N = (int)n;
    o.first_env = (int)first;
    o.group = (int)group;
    o.max_steps = (int)max_steps;
    o.seed = (uint64_t)seed;
    o.reset_purpose = strcmp(purpose, "eval") ? MF_RNG_RESET : MF_RNG_EVAL_RESET;
    unmake(v);
    int rc = mf_slots_init(&v->r, &o, err);
    return rc ? rc : mf_threads_new(&v->s, &v->r, err);
}

static int episodes(struct mf_service *v, const struct mf_frame *q, const int32_t **episode, struct mf_err *err)
{
    size_t n = (size_t)v->r.N;
    int rc = mf_talk_get(q, "episode", MF_I32, 1, &n, (const void **)episode, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if ((*episode)[i] < 0 || (*episode)[i] > EPISODE_MAX)
            rc = mf_err_set(err, MF_EUSAGE, "episode[%zu] is %d, not within 0..%d", i, (*episode)[i], EPISODE_MAX);
    return rc;
}

static int check_actions(const float *actions, size_t n, struct mf_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(actions[i]))
            return mf_err_set(err, MF_EUSAGE, "number %zu of the actions is not finite", i);
    return 0;
}

/* The observations, and what tasks they belong to. */
static int answer_rows(const struct mf_slots *r, struct mf_frame *a, struct mf_err *err)
{
    const size_t n = (size_t)r->N;
    int rc = mf_talk_put_obs(a, "obs", &r->o.obs, r->N, r->obs, err);
    return rc || !r->o.env->language.text ? rc : mf_talk_put(a, "task", MF_I32, 1, &n, r->task, err);
}

static int reset(struct mf_service *v, const struct mf_frame *q, struct mf_frame *a, struct mf_err *err)
{
    struct mf_slots *r = &v->r;
    size_t n = (size_t)r->N;
    const void *which;
    const int32_t *episode;
    int rc = mf_talk_get(q, "which", MF_U8, 1, &n, &which, err);
    if (rc || (rc = episodes(v, q, &episode, err)))
        return rc;
    for (size_t i = 0; i < n; i++)
        if (((const uint8_t *)which)[i])
            r->episode[i] = episode[i];
    rc = v->s.kind->reset(v->s.self, r, which, err);
    return rc ? rc : answer_rows(r, a, err);
}

static int answer_step(const struct mf_slots *r, struct mf_frame *a, bool over, struct mf_err *err)
{
    size_t dim[] = {(size_t)r->N, (size_t)r->C};
    int rc;
    if ((rc = answer_rows(r, a, err)) ||
        (over && (rc = mf_talk_put_obs(a, "final", &r->o.obs, r->N, r->final_obs, err))) ||
        (rc = mf_talk_put(a, "rewards", MF_F32, 2, dim, r->rewards, err)) ||
        (rc = mf_talk_put(a, "success", MF_U8, 2, dim, r->success, err)) ||
        (rc = mf_talk_put(a, "n_exec", MF_I32, 1, dim, r->n_exec, err)) ||
        (rc = mf_talk_put(a, "terminated", MF_U8, 1, dim, r->terminated, err)))
        return rc;
    return mf_talk_put(a, "truncated", MF_U8, 1, dim, r->truncated, err);
}

static int step(struct mf_service *v, const struct mf_frame *q, struct mf_frame *a, struct mf_err *err)
{
    struct mf_slots *r = &v->r;
    const struct mf_array *asked = mf_frame_find(q, "actions");
    size_t n = (size_t)r->N, C = asked && asked->rank == 3 ? asked->dim[1] : 1, dim[] = {n, C, (size_t)r->A};
    const void *actions, *active;
    const int32_t *next;
    bool autoreset, over = false;
    if (mf_frame_get_bool(q, "autoreset", &autoreset, err) ||
        mf_talk_get(q, "actions", MF_F32, 3, dim, &actions, err) ||
        mf_talk_get(q, "active", MF_U8, 1, &n, &active, err) || episodes(v, q, &next, err))
        return err->code;
    if (C < 1 || C > ACTIONS_MAX)
        return mf_err_set(err, MF_EUSAGE, "a chunk of %zu actions; 1 to %d are possible", C, ACTIONS_MAX);
    if (check_actions(actions, n * C * (size_t)r->A, err) || mf_slots_chunk(r, (int)C, err))
        return err->code;
    for (size_t i = 0; i < n; i++) {
        r->idle[i] = !((const uint8_t *)active)[i];
        r->episode[i] = next[i] - 1;
    }
    int rc = v->s.kind->step(v->s.self, r, actions, autoreset, err);
    for (size_t i = 0; i < n; i++)
        over |= r->terminated[i] || r->truncated[i];
    return rc ? rc : answer_step(r, a, over, err);
}

static int save(struct mf_service *v, const struct mf_frame *q, struct mf_frame *a, struct mf_err *err)
{
    size_t N = (size_t)v->r.N, *size = mf_xcalloc(N, sizeof *size);
    void **state = mf_xcalloc(N, sizeof *state);
    int rc = v->s.kind->save(v->s.self, &v->r, state, size, err);
    (void)q;
    for (size_t i = 0; i < N; i++) {
        char name[32];
        snprintf(name, sizeof name, "state/%zu", i);
        rc = rc ? rc : mf_talk_put(a, name, MF_U8, 1, &size[i], state[i], err);
        free(state[i]);
    }
    free(state);
    free(size);
    return rc;
}

static int load(struct mf_service *v, const struct mf_frame *q, struct mf_frame *a, struct mf_err *err)
{
    size_t N = (size_t)v->r.N, *size = mf_xcalloc(N, sizeof *size);
    const void **state = mf_xcalloc(N, sizeof *state);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < N; i++) {
        char name[32];
        snprintf(name, sizeof name, "state/%zu", i);
        const struct mf_array *s = mf_frame_find(q, name);
        if (!s || s->dtype != MF_U8)
            rc = mf_err_set(err, MF_EFORMAT, "a load request without '%s'", name);
        else
            state[i] = s->data, size[i] = s->bytes;
    }
    if (rc == 0)
        rc = v->s.kind->load(v->s.self, &v->r, state, size, err);
    free(state);
    free(size);
    return rc ? rc : answer_rows(&v->r, a, err);
}

/* ---- answering ---- */

static const struct {
    const char *say, *answer;
    int (*act)(struct mf_service *v, const struct mf_frame *q, struct mf_frame *a, struct mf_err *err);
} acts[] = {{"hello", "spaces", hello}, {"make", "made", make},   {"reset", "rows", reset},
            {"step", "rows", step},     {"save", "states", save}, {"load", "rows", load}};

static struct mf_frame *no(const struct mf_err *why, int64_t seq)
{
    struct mf_frame *a = mf_talk_new("error", seq);
    mf_frame_set_str(a, "text", why->text);
    return a;
}

struct mf_frame *mf_service_answer(struct mf_service *v, const struct mf_frame *q, const char *say, int64_t seq)
{
    struct mf_err why = {0};
    struct mf_frame *a;
    size_t i = 0;
    while (i < sizeof acts / sizeof *acts && strcmp(acts[i].say, say))
        i++;
    if (i == sizeof acts / sizeof *acts) {
        mf_err_set(&why, MF_EUSAGE, "unknown request '%.20s'", say);
    } else if (i > 1 && !v->s.kind) {
        mf_err_set(&why, MF_EUSAGE, "the request '%s' came before 'make'", say);
    } else {
        a = mf_talk_new(acts[i].answer, seq);
        if (acts[i].act(v, q, a, &why) == 0)
            return a;
        mf_frame_free(a);
    }
    return no(&why, seq);
}

struct mf_service *mf_service_new(const struct mf_env *env, int threads, int image_size)
{
    struct mf_service *v = mf_xcalloc(1, sizeof *v);
    v->env = env;
    v->threads = threads;
    v->image_size = image_size;
    return v;
}

void mf_service_free(struct mf_service *v)
{
    unmake(v);
    free(v);
}

int mf_env_serve(struct mf_rpc *c, const struct mf_env *env, int threads, int image_size, struct mf_err *err)
{
    struct mf_service *v = mf_service_new(env, threads, image_size);
    struct mf_frame *q;
    const char *say;
    int64_t seq;
    int rc;
    do {
        rc = mf_talk_recv(c, INFINITY, &q, &say, &seq, err);
        if (rc == MF_EFORMAT && mf_rpc_is_socket(c)) {
            rc = mf_talk_send(c, no(err, -1), INFINITY, err);
        } else if (rc == 0) {
            rc = mf_talk_send(c, mf_service_answer(v, q, say, seq), INFINITY, err);
            mf_frame_free(q);
        }
    } while (rc == 0);
    mf_service_free(v);
    return rc == MF_CLOSED ? 0 : rc;
}
