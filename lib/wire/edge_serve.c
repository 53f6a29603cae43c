#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include "base/mem.h"
#include "wire/edge_clients.h"

struct release {
    int64_t version;
    int n;
    zmq_msg_t *parts; /* reference-counted by libzmq while they are sent */
};

struct collector {
    char src[MF_EDGE_SRC];
    bool admitted;
    bool refusing;           /* clients that have used its name are to be rejected */
    char why[MF_EDGE_WHY];   /* reason of the last rejection */
    zmq_msg_t *state, *next; /* state with the newest version; state with the next one. NULL: none */
};

struct mf_edge_server {
    struct mf_socket router;
    int wake; /* eventfd: look at what changed under the lock */
    pthread_t thread;
    pthread_mutex_t lock;
    bool over, ended; /* over: and says so */
    int keep, n_releases, n_sources;
    struct release *releases; /* oldest first */
    struct collector *sources;
    /* the thread's own */
    struct mf_edge_clients clients;
};

static const struct release *find_release(const struct mf_edge_server *e, int64_t version)
{
    for (int i = e->n_releases; i-- > 0;)
        if (e->releases[i].version == version)
            return &e->releases[i];
    return NULL;
}

static struct collector *find_source(struct mf_edge_server *e, const char *src)
{
    for (int i = 0; i < e->n_sources; i++)
        if (!strcmp(e->sources[i].src, src))
            return &e->sources[i];
    return NULL;
}

/* Called under the lock; sends never block. */
static void answer(struct mf_edge_server *e, struct mf_edge_asker *c, bool asked)
{
    const bool joins = c->say == MF_EDGE_JOIN;
    struct collector *source = find_source(e, c->src);
    const struct release *newest = e->n_releases ? &e->releases[e->n_releases - 1] : NULL, *r = NULL;
    struct mf_edge_note note = {.say = MF_EDGE_WAIT, .seq = c->seq, .version = c->version};
    memcpy(note.src, c->src, sizeof note.src);
    if (newest) {
        note.oldest = e->releases[0].version;
        note.newest = newest->version;
    }
    if (!c->refused)
        r = !joins ? find_release(e, c->version) : source && source->admitted ? newest : NULL;
    if (c->waits && r && c->say != MF_EDGE_WATCH) {
        note.say = MF_EDGE_POLICY;
        note.version = r->version;
        note.parts = r->n;
        note.state = joins && source->state;
    } else if (c->waits && c->refused && source) {
        note.say = MF_EDGE_NO;
        memcpy(note.why, source->why, sizeof note.why);
    } else if (c->waits && !joins && newest && !r && c->version < note.newest)
        note.say = MF_EDGE_GONE;
    else if (c->waits && !r && e->over)
        note.say = MF_EDGE_OVER;
    else if (!asked)
        return;
    if (mf_edge_reply(&e->clients, &e->router, c, &note, r ? r->parts : NULL, source ? source->state : NULL) &&
        note.say != MF_EDGE_WAIT)
        c->waits = false;
}

static bool take_question(struct mf_edge_server *e)
{
    struct mf_edge_asker *c;
    const bool came = mf_edge_question(&e->clients, &e->router, &c);
    if (c) {
        pthread_mutex_lock(&e->lock);
        answer(e, c, true);
        pthread_mutex_unlock(&e->lock);
    }
    return came;
}

/* Under the lock. */
static void refuse_clients(struct mf_edge_server *e)
{
    for (struct mf_edge_asker *c = e->clients.c; c < e->clients.c + e->clients.n; c++) {
        const struct collector *s = find_source(e, c->src);
        c->refused |= s && s->refusing;
    }
    for (int i = 0; i < e->n_sources; i++)
        e->sources[i].refusing = false;
}

static void look_at_events(struct mf_edge_server *e)
{
    enum mf_socket_event event;
    while (mf_socket_event(&e->router, &event))
        if (event == MF_SOCKET_MISMATCH)
            mf_socket_log_mismatch(&e->router);
}

static void *serve(void *arg)
{
    struct mf_edge_server *e = arg;
    for (bool ended = false; !ended;) {
        zmq_pollitem_t ready[] = {{.socket = e->router.socket, .events = ZMQ_POLLIN},
                                  {.fd = e->wake, .events = ZMQ_POLLIN},
                                  {.socket = e->router.monitor, .events = ZMQ_POLLIN}};
        uint64_t changes;
        if (zmq_poll(ready, 3, -1) < 0)
            continue;
        look_at_events(e);
        bool woken = ready[1].revents && read(e->wake, &changes, sizeof changes) > 0;
        while (take_question(e))
            continue;
        if (!woken)
            continue;
        pthread_mutex_lock(&e->lock);
        refuse_clients(e);
        for (int i = 0; i < e->clients.n; i++)
            if (!e->clients.c[i].gone)
                answer(e, &e->clients.c[i], false);
        ended = e->ended;
        pthread_mutex_unlock(&e->lock);
    }
    return NULL;
}

static void wake(struct mf_edge_server *e)
{
    uint64_t one = 1;
    while (write(e->wake, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

static void release_free(struct release *r)
{
    for (int i = 0; i < r->n; i++)
        zmq_msg_close(&r->parts[i]);
    free(r->parts);
}

static void state_free(zmq_msg_t *state)
{
    if (state)
        zmq_msg_close(state);
    free(state);
}

static void server_free(struct mf_edge_server *e)
{
    for (int i = 0; i < e->n_releases; i++)
        release_free(&e->releases[i]);
    for (int i = 0; i < e->n_sources; i++) {
        state_free(e->sources[i].state);
        state_free(e->sources[i].next);
    }
    mf_socket_close(&e->router, 2000);
    if (e->wake >= 0)
        close(e->wake);
    pthread_mutex_destroy(&e->lock);
    free(e->clients.c);
    free(e->releases);
    free(e->sources);
    free(e);
}

int mf_edge_serve(struct mf_edge_server **out, const char *address, const struct mf_wire_opts *opts, int keep,
                  struct mf_err *err)
{
    struct mf_edge_server *e = mf_xcalloc(1, sizeof *e);
    int rc = 0;
    e->keep = keep > 0 ? keep : 1;
    e->releases = mf_xcalloc((size_t)e->keep, sizeof *e->releases);
    e->wake = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_init(&e->lock, NULL);
    if (e->wake < 0)
        rc = mf_err_errno(err, "cannot make an eventfd");
    if (!rc)
        rc = mf_socket_open(&e->router, ZMQ_ROUTER, address, true, opts, MF_NOTE_MAX, err);
    if (!rc) {
        mf_edge_limits(&e->router, true);
        mf_socket_set(&e->router, ZMQ_ROUTER_MANDATORY, 1);
        rc = mf_socket_attach(&e->router, err);
    }
    if (!rc) {
        sigset_t all, before; /* signals are the main thread's */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        errno = pthread_create(&e->thread, NULL, serve, e);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (errno)
            rc = mf_err_errno(err, "cannot start the thread that serves the policy");
    }
    if (rc)
        server_free(e);
    else
        *out = e;
    return rc;
}

static int message(zmq_msg_t *m, const void *bytes, size_t size, struct mf_err *err)
{
    if (zmq_msg_init_size(m, size) < 0)
        return mf_err_set(err, MF_ENOMEM, "cannot allocate %zu bytes for a part of the policy", size);
    memcpy(zmq_msg_data(m), bytes, size);
    return 0;
}

int mf_edge_publish(struct mf_edge_server *e, int64_t version, int n, const void *const *parts, const size_t *sizes,
                    struct mf_err *err)
{
    if (n > MF_EDGE_PARTS_MAX)
        return mf_err_set(err, MF_EUSAGE, "a policy of %d parts is more than %d", n, MF_EDGE_PARTS_MAX);
    struct release old = {.n = 0}, new = {.version = version, .parts = mf_xcalloc((size_t)n, sizeof *new.parts)};
    for (; new.n < n; new.n++) {
        int rc = message(&new.parts[new.n], parts[new.n], sizes[new.n], err);
        if (rc) {
            release_free(&new);
            return rc;
        }
    }
    pthread_mutex_lock(&e->lock);
    if (e->n_releases == e->keep) {
        old = e->releases[0];
        memmove(e->releases, e->releases + 1, (size_t)--e->n_releases * sizeof *e->releases);
    }
    e->releases[e->n_releases++] = new;
    for (struct collector *s = e->sources; s < e->sources + e->n_sources; s++) {
        if (!s->next)
            continue;
        state_free(s->state);
        s->state = s->next;
        s->next = NULL;
    }
    pthread_mutex_unlock(&e->lock);
    wake(e);
    release_free(&old);
    return 0;
}

/* A source of this name, made where there is none; on success the lock is held. */
static int hold_source(struct mf_edge_server *e, const char *src, struct collector **s, struct mf_err *err)
{
    if (strlen(src) >= MF_EDGE_SRC)
        return mf_err_set(err, MF_EFORMAT, "the source's name %.80s is longer than %d bytes", src, MF_EDGE_SRC - 1);
    pthread_mutex_lock(&e->lock);
    if ((*s = find_source(e, src)))
        return 0;
    e->sources = mf_xrealloc(e->sources, (size_t)e->n_sources + 1, sizeof *e->sources);
    *s = &e->sources[e->n_sources++];
    **s = (struct collector){.state = NULL};
    strcpy((*s)->src, src);
    return 0;
}

static void let_go(struct mf_edge_server *e)
{
    pthread_mutex_unlock(&e->lock);
    wake(e);
}

int mf_edge_admit(struct mf_edge_server *e, const char *src, bool admitted, struct mf_err *err)
{
    struct collector *s;
    int rc = hold_source(e, src, &s, err);
    if (rc)
        return rc;
    s->admitted = admitted;
    let_go(e);
    return 0;
}

int mf_edge_refuse(struct mf_edge_server *e, const char *src, const char *why, struct mf_err *err)
{
    struct collector *s;
    int rc = hold_source(e, src, &s, err);
    if (rc)
        return rc;
    s->admitted = false;
    s->refusing = true;
    snprintf(s->why, sizeof s->why, "%s", why);
    let_go(e);
    return 0;
}

int mf_edge_give_state(struct mf_edge_server *e, const char *src, const void *bytes, size_t size, struct mf_err *err)
{
    struct collector *s;
    zmq_msg_t *next = mf_xcalloc(1, sizeof *next);
    int rc = message(next, bytes, size, err);
    if (rc || (rc = hold_source(e, src, &s, err))) {
        state_free(next);
        return rc;
    }
    state_free(s->next);
    s->next = next;
    pthread_mutex_unlock(&e->lock);
    return 0;
}

static void end(struct mf_edge_server *e, bool over)
{
    if (!e)
        return;
    pthread_mutex_lock(&e->lock);
    e->over = over;
    e->ended = true;
    let_go(e);
    pthread_join(e->thread, NULL);
    server_free(e);
}

void mf_edge_finish(struct mf_edge_server *e)
{
    end(e, true);
}

void mf_edge_drop(struct mf_edge_server *e)
{
    end(e, false);
}
