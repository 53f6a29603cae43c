#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "env/batch_priv.h"

/* ---- asking ---- */

static int ask(struct mf_served_batch *b, struct mf_server *w, const struct mf_served_question *q, struct mf_err *err)
{
    struct mf_frame *f = mf_server_question(w, q->say);
    int rc = q->fill(b, w, f, err);
    if (rc) {
        mf_frame_free(f);
        return rc;
    }
    return mf_server_ask(b->s, w, f, err);
}

static int hear(struct mf_served_batch *b, struct mf_server *w, const struct mf_served_question *q, struct mf_err *err)
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
static void lose(struct mf_served_batch *b, const struct mf_server *w, const struct mf_served_question *q)
{
    struct mf_slots *r = b->r;
    for (int n = w->first; n < w->first + w->count; n++) {
        bool over = r->terminated[n] || r->truncated[n];
        if (r->C == 0 || r->idle[n] || (q == &mf_ask_reset && over))
            continue;
        r->lost[n] = b->which[n] = true;
        r->n_exec[n] = 0;
        memset(r->rewards + n * r->C, 0, (size_t)r->C * sizeof *r->rewards);
        memset(r->success + n * r->C, 0, (size_t)r->C);
    }
}

static int recover(struct mf_served_batch *b, struct mf_server *w, const struct mf_served_question *q,
                   struct mf_err *err)
{
    const struct mf_served_question *again = q == &mf_ask_step ? &mf_ask_reset : q;
    int rc;
    lose(b, w, q);
    do {
        if ((rc = mf_server_revive(b->s, w, err)))
            return rc;
        if ((rc = ask(b, w, &mf_ask_make, err)) == 0 && (rc = hear(b, w, &mf_ask_make, err)) == 0 &&
            again != &mf_ask_make && (rc = ask(b, w, again, err)) == 0)
            rc = hear(b, w, again, err);
    } while (mf_served_is_fault(rc));
    return rc;
}

static bool concerns(const struct mf_served_batch *b, const struct mf_server *w, const struct mf_served_question *q)
{
    return q != &mf_ask_reset || memchr(b->which + w->first, 1, (size_t)w->count);
}

static int ask_all(struct mf_served_batch *b, const struct mf_served_question *q, struct mf_err *err)
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
        if (mf_served_is_fault(rc) && q != &mf_ask_make) /* a restart does not help if `make` itself fails */
            rc = recover(b, &server[i], q, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* ---- the stepper ---- */

static int reset_rows(void *self, struct mf_slots *r, const uint8_t *which, struct mf_err *err)
{
    struct mf_served_batch *b = self;
    b->r = r;
    b->autoreset = false;
    for (int n = 0; n < r->N; n++)
        b->which[n] = !which || which[n];
    return ask_all(b, &mf_ask_reset, err);
}

static int step_rows(void *self, struct mf_slots *r, const float *actions, bool autoreset, struct mf_err *err)
{
    struct mf_served_batch *b = self;
    b->r = r;
    b->actions = actions;
    b->autoreset = autoreset;
    memset(b->which, 0, (size_t)r->N);
    int rc = ask_all(b, &mf_ask_step, err);
    if (rc || b->s->autoreset != MF_DISABLED || !autoreset)
        return rc;
    for (int n = 0; n < r->N; n++)
        b->which[n] = !r->idle[n] && (r->terminated[n] || r->truncated[n]);
    return ask_all(b, &mf_ask_reset, err);
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
    struct mf_served_batch *b = self;
    struct mf_err fault;
    int rc = 0;
    b->state = state;
    b->size = size;
    (void)r;
    for (int i = 0; b->s->saves && rc == 0 && i < b->n_servers; i++) {
        struct mf_server *w = &b->s->server[i];
        rc = ask(b, w, &mf_ask_save, &fault);
        rc = rc ? rc : hear(b, w, &mf_ask_save, &fault);
        if (mf_served_is_fault(rc))
            rc = 0;
    }
    if (rc)
        *err = fault;
    return rc;
}

static int load_rows(void *self, struct mf_slots *r, const void *const *state, const size_t *size, struct mf_err *err)
{
    struct mf_served_batch *b = self;
    b->r = r;
    b->saved = state;
    b->size = (size_t *)size;
    return ask_all(b, &mf_ask_load, err);
}

static void free_batch(void *self)
{
    struct mf_served_batch *b = self;
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
    struct mf_served_batch *b = mf_xcalloc(1, sizeof *b);
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
        rc = ask_all(b, &mf_ask_make, err);
    if (rc)
        free_batch(b);
    else
        *out = (struct mf_stepper){&kind, b};
    return rc;
}
