#include "env/served.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpus.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/name.h"
#include "env/served_priv.h"

/* ---- one server ---- */

/* Its name, for messages: "process 4711 ('python3 gym.py')". */
static int named(const struct mf_served *s, const struct mf_server *w, struct mf_err *err)
{
    return mf_err_at(err, "environment server %d ('%.60s')", (int)(w - s->server),
                     s->opts.command ? s->opts.command : s->opts.address);
}

/* The request sent at `since` failed: was it a timeout? */
static int no_answer(const struct mf_served *s, const struct mf_server *w, double since, struct mf_err *err)
{
    const struct mf_err was = *err;
    if (was.code == MF_EIO && mf_now() - since >= s->opts.timeout)
        mf_err_set(err, MF_EIO, "%.300s within env.timeout=%g s: raise it if starting or answering takes longer",
                   was.text, s->opts.timeout);
    return named(s, w, err);
}

int mf_server_ask(struct mf_served *s, struct mf_server *w, struct mf_frame *f, struct mf_err *err)
{
    const double since = mf_now();
    int rc = mf_talk_send(w->call, f, s->opts.timeout, err);
    return rc ? no_answer(s, w, since, err) : 0;
}

struct mf_frame *mf_server_question(struct mf_server *w, const char *say)
{
    return mf_talk_new(say, ++w->seq);
}

int mf_server_answer(struct mf_served *s, struct mf_server *w, struct mf_frame **f, struct mf_err *err)
{
    const double since = mf_now();
    const char *say, *text = "";
    int64_t seq;
    int rc = mf_talk_recv(w->call, s->opts.timeout, f, &say, &seq, err);
    if (rc)
        return no_answer(s, w, since, err);
    if (seq != w->seq)
        rc = mf_err_set(err, MF_EFORMAT, "%s answered request %lld instead of %lld%s", mf_rpc_name(w->call),
                        (long long)seq, (long long)w->seq, seq == w->seq - 1 ? ": it answered twice" : "");
    else if (!strcmp(say, "error"))
        rc = mf_frame_get_str(*f, "text", &text, err)
                 ? err->code
                 : mf_err_set(err, MF_EIO, "%s reports: %.300s", mf_rpc_name(w->call), text);
    if (rc == 0)
        return 0;
    mf_frame_free(*f);
    return named(s, w, err);
}

/* The name becomes a folder. */
static void take_name(struct mf_served *s, const char *name)
{
    mf_name_plain(s->name, name);
    for (char *c = s->name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
            *c = '-';
}

/* Defaults for a fresh policy: env.h. */
static int take_likes(struct mf_served *s, const struct mf_frame *f, struct mf_err *err)
{
    const char *words;
    if (!mf_frame_has(f, "defaults"))
        return 0;
    if (mf_frame_get_str(f, "defaults", &words, err))
        return err->code;
    if (strlen(words) >= sizeof s->likes)
        return mf_err_set(err, MF_EFORMAT, "its defaults are longer than %zu bytes", sizeof s->likes - 1);
    strcpy(s->likes, words);
    s->env.likes = s->likes;
    return 0;
}

/* Its language: a line for each task. */
static int take_tasks(struct mf_served *s, const struct mf_frame *f, struct mf_err *err)
{
    const char *lines;
    if (!mf_frame_has(f, "tasks"))
        return 0;
    if (mf_frame_get_str(f, "tasks", &lines, err))
        return err->code;
    s->lines = mf_xstrdup(lines);
    s->task = mf_xcalloc(strlen(lines) + 2, sizeof *s->task);
    for (char *rest = *lines ? s->lines : NULL; rest;) /* an empty line is a task, too: the server numbers them */
        s->task[s->n_tasks++] = strsep(&rest, "\n");
    s->env.language.text = s->task;
    return s->n_tasks ? 0 : mf_err_set(err, MF_EFORMAT, "its tasks are empty: a line for each is expected");
}

static int take_spaces(struct mf_served *s, const struct mf_frame *f, struct mf_err *err)
{
    static const char *const modes[] = {"same_step", "next_step", "disabled", NULL};
    struct mf_env *e = &s->env;
    struct mf_layout l;
    const char *name, *mode;
    const void *low_data, *high_data;
    int64_t version, max_steps;
    int i;
    if (mf_frame_get_int(f, "v", &version, err) || mf_frame_get_str(f, "name", &name, err) ||
        mf_frame_get_int(f, "max_steps", &max_steps, err) || mf_frame_get_num(f, "control_hz", &e->control_hz, err) ||
        mf_frame_get_str(f, "autoreset", &mode, err) || mf_frame_get_bool(f, "saves", &s->saves, err) ||
        mf_frame_get_bool(f, "renders", &s->renders, err) || mf_talk_layout(f, "obs", &l, err))
        return err->code;
    if (version != MF_TALK_VERSION)
        return mf_err_set(err, MF_EFORMAT, "it speaks version %lld of the protocol, and this is %d", (long long)version,
                          MF_TALK_VERSION);
    for (i = 0; modes[i] && strcmp(modes[i], mode); i++)
        ;
    if (!modes[i])
        return mf_err_set(err, MF_EFORMAT, "its autoreset is '%.20s', and not same_step, next_step or disabled", mode);
    s->autoreset = (enum mf_autoreset)i;
    const struct mf_array *bound = mf_frame_find(f, "action/low");
    size_t A = bound && bound->rank == 1 ? bound->dim[0] : 0;
    if (A < 1 || A > 1 << 16 || max_steps < 1 || max_steps > INT32_MAX)
        return mf_err_set(err, MF_EFORMAT,
                          "it has no action (an array action/low of 1 dimension), or no max_steps > 0");
    if (mf_talk_get(f, "action/low", MF_F32, 1, &A, &low_data, err) ||
        mf_talk_get(f, "action/high", MF_F32, 1, &A, &high_data, err))
        return err->code;
    const float *low = low_data, *high = high_data;
    for (size_t j = 0; j < A; j++)
        if (!(low[j] <= high[j]))
            return mf_err_set(err, MF_EFORMAT, "its action %zu has the range %g to %g", j, (double)low[j],
                              (double)high[j]);
    if (!isfinite(e->control_hz) || e->control_hz < 0)
        return mf_err_set(err, MF_EFORMAT, "its control_hz is %g", e->control_hz);
    e->action_dim = (int)A;
    e->max_steps = (int)max_steps;
    for (int k = 0; k < l.n; k++)
        if (!strcmp(l.key[k].name, MF_OBS_TOKENS))
            return mf_err_set(err, MF_EFORMAT,
                              "its observation 'tokens' would be made of its tasks by policy.tokenizer: rename it");
    memcpy(e->obs, l.key, sizeof e->obs);
    free(s->bound);
    s->bound = mf_xcalloc(2 * A, sizeof *s->bound);
    memcpy(s->bound, low, A * sizeof *s->bound);
    memcpy(s->bound + A, high, A * sizeof *s->bound);
    take_name(s, name);
    e->name = e->robomimic_name = s->name;
    int rc = take_likes(s, f, err);
    return rc ? rc : take_tasks(s, f, err);
}

/* Starts or connects, without a request, so that several can start in parallel. */
static int start(struct mf_served *s, struct mf_server *w, struct mf_err *err)
{
    w->seq = 0;
    return s->opts.command ? mf_rpc_spawn(&w->call, s->opts.command, err)
                           : mf_rpc_connect(&w->call, s->opts.address, err);
}

/* The first server describes the environment; other and restarted servers only have to reply. */
int mf_served_greet(struct mf_served *s, struct mf_server *w, struct mf_err *err)
{
    struct mf_frame *f;
    int rc = mf_server_ask(s, w, mf_server_question(w, "hello"), err);
    if (rc || (rc = mf_server_answer(s, w, &f, err)))
        return rc;
    if (!s->name[0] && (rc = take_spaces(s, f, err)))
        named(s, w, err);
    mf_frame_free(f);
    return rc;
}

static void stop(struct mf_server *w)
{
    mf_rpc_free(w->call);
    w->call = NULL;
}

bool mf_served_is_fault(int rc)
{
    return rc == MF_CLOSED || rc == MF_EIO;
}

int mf_server_revive(struct mf_served *s, struct mf_server *w, struct mf_err *err)
{
    char why[sizeof err->text], text[sizeof err->text + 120];
    int rc = err->code;
    for (; mf_served_is_fault(rc); rc = start(s, w, err) || mf_served_greet(s, w, err) ? err->code : 0) {
        snprintf(why, sizeof why, "%s", err->text);
        if (w->restarts >= s->opts.restarts)
            return mf_err_set(err, MF_EIO, "%.400s; it was restarted %d times before (env.restarts)", why, w->restarts);
        w->restarts++;
        snprintf(text, sizeof text, "%s; restarting it (%d of env.restarts=%d); its environments start new episodes",
                 why, w->restarts, (int)s->opts.restarts);
        if (s->opts.warn)
            s->opts.warn(text);
        stop(w);
    }
    return rc;
}

/* ---- all of them ---- */

int mf_served_start(struct mf_served *s, int N, int *n, struct mf_err *err)
{
    const int64_t want = s->opts.workers ? s->opts.workers : mf_cpus("");
    int rc = 0;
    *n = !s->opts.command ? 1 : want > N ? N : (int)want;
    int before = s->n_servers;
    if (*n > before) {
        s->server = mf_xrealloc(s->server, (size_t)*n, sizeof *s->server);
        memset(s->server + before, 0, (size_t)(*n - before) * sizeof *s->server);
        s->n_servers = *n;
    }
    for (int i = before; rc == 0 && i < *n; i++)
        rc = start(s, &s->server[i], err);
    for (int i = before; rc == 0 && i < *n; i++)
        rc = mf_served_greet(s, &s->server[i], err);
    return rc;
}

int mf_served_open(const struct mf_env **env, const struct mf_env_opts *o, struct mf_err *err)
{
    struct mf_served *s = mf_xcalloc(1, sizeof *s);
    bool exec = !strcmp(o->name, "exec");
    int n;
    s->opts = *o;
    s->opts.command = exec ? o->command : NULL;
    s->opts.address = exec ? NULL : o->address;
    s->env.served = s;
    int rc = mf_served_start(s, 1, &n, err);
    if (rc) {
        mf_served_close(s);
        /* A server that never replied is a wrong command or address, not a lost reader. */
        return err->code = rc == MF_CLOSED ? MF_EIO : rc;
    }
    *env = &s->env;
    return 0;
}

bool mf_served_renders(const struct mf_served *s)
{
    return s->renders;
}

void mf_served_close(struct mf_served *s)
{
    for (int i = 0; i < s->n_servers; i++)
        stop(&s->server[i]);
    free(s->server);
    free(s->bound);
    free(s->lines);
    free(s->task);
    free(s);
}
