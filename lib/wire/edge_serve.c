#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "base/mem.h"
#include "wire/edge_priv.h"

enum { CLIENTS = 64 };

struct release {
    int64_t version;
    int n;
    zmq_msg_t *parts; /* libzmq counts who still sends them */
};

struct state {
    char src[MF_EDGE_SRC];
    int64_t version;
    zmq_msg_t *bytes;
};

struct client {
    unsigned char id[255];
    size_t id_size;
    char src[MF_EDGE_SRC];
    int64_t seq, version;
    bool waits;     /* no final answer to seq yet */
    uint64_t heard; /* for who is forgotten when there are more than CLIENTS */
};

struct mf_edge_server {
    void *context, *router;
    char *path; /* of the socket, which libzmq leaves behind; NULL: tcp */
    int wake;   /* eventfd: look at what changed under the lock */
    pthread_t thread;
    pthread_mutex_t lock;
    bool over;
    int keep, n_releases, n_states;
    struct release *releases; /* oldest first */
    struct state *states;
    /* the thread's own */
    struct client clients[CLIENTS];
    int n_clients;
    uint64_t turn;
};

static bool send_bytes(struct mf_edge_server *e, const void *bytes, size_t size, int flags)
{
    return zmq_send(e->router, bytes, size, flags | ZMQ_DONTWAIT) >= 0;
}

static bool send_shared(struct mf_edge_server *e, zmq_msg_t *m, int flags)
{
    zmq_msg_t copy;
    zmq_msg_init(&copy);
    bool good = zmq_msg_copy(&copy, m) == 0 && zmq_msg_send(&copy, e->router, flags | ZMQ_DONTWAIT) >= 0;
    if (!good)
        zmq_msg_close(&copy);
    return good;
}

static const struct release *find_release(const struct mf_edge_server *e, int64_t version)
{
    for (int i = e->n_releases; i-- > 0;)
        if (e->releases[i].version == version)
            return &e->releases[i];
    return NULL;
}

static struct state *find_state(struct mf_edge_server *e, const char *src)
{
    for (int i = 0; i < e->n_states; i++)
        if (!strcmp(e->states[i].src, src))
            return &e->states[i];
    return NULL;
}

/* Under the lock; sends never block. A client that is gone or whose queue is full is left to ask again. */
static void answer(struct mf_edge_server *e, struct client *c, bool asked)
{
    char text[MF_EDGE_NOTE_MAX];
    const struct release *r = find_release(e, c->version);
    struct state *state = find_state(e, c->src);
    if (state && state->version != c->version)
        state = NULL;
    struct mf_edge_note note = {.say = MF_EDGE_WAIT, .seq = c->seq, .version = c->version};
    memcpy(note.src, c->src, sizeof note.src);
    if (e->n_releases) {
        note.oldest = e->releases[0].version;
        note.newest = e->releases[e->n_releases - 1].version;
    }
    if (c->waits && r) {
        note.say = MF_EDGE_POLICY;
        note.parts = r->n;
        note.state = state != NULL;
    } else if (c->waits && e->n_releases && c->version < note.newest)
        note.say = MF_EDGE_GONE;
    else if (c->waits && e->over)
        note.say = MF_EDGE_OVER;
    else if (!asked)
        return;
    int parts = (int)(note.parts + note.state);
    bool good = send_bytes(e, c->id, c->id_size, ZMQ_SNDMORE) &&
                send_bytes(e, text, mf_edge_note_write(&note, text), parts ? ZMQ_SNDMORE : 0);
    for (int i = 0; i < note.parts && good; i++)
        good = send_shared(e, &r->parts[i], i + 1 < parts ? ZMQ_SNDMORE : 0);
    if (note.state && good)
        good = send_shared(e, state->bytes, 0);
    if (note.say != MF_EDGE_WAIT && good)
        c->waits = false;
}

static struct client *client_of(struct mf_edge_server *e, const void *id, size_t size)
{
    struct client *c = e->clients;
    for (int i = 0; i < e->n_clients; i++) {
        if (e->clients[i].id_size == size && !memcmp(e->clients[i].id, id, size))
            return &e->clients[i];
        if (e->clients[i].heard < c->heard)
            c = &e->clients[i];
    }
    if (e->n_clients < CLIENTS)
        c = &e->clients[e->n_clients++];
    *c = (struct client){.id_size = size, .seq = -1};
    memcpy(c->id, id, size);
    return c;
}

/* One whole message: [id, note]. 0: none is there. Strangers' messages are dropped. */
static int take_question(struct mf_edge_server *e)
{
    zmq_msg_t id, body;
    struct mf_edge_note note;
    int more = 0, parts = 0;
    zmq_msg_init(&id);
    zmq_msg_init(&body);
    if (zmq_msg_recv(&id, e->router, ZMQ_DONTWAIT) >= 0) {
        for (more = zmq_msg_more(&id); more; parts++) {
            zmq_msg_recv(&body, e->router, 0);
            more = zmq_msg_more(&body);
        }
        if (parts == 1 && zmq_msg_size(&id) <= sizeof e->clients->id &&
            mf_edge_note_read(&note, zmq_msg_data(&body), zmq_msg_size(&body)) && note.say == MF_EDGE_WANT) {
            struct client *c = client_of(e, zmq_msg_data(&id), zmq_msg_size(&id));
            c->heard = ++e->turn;
            c->waits |= note.seq != c->seq;
            c->seq = note.seq;
            c->version = note.version;
            memcpy(c->src, note.src, sizeof c->src);
            pthread_mutex_lock(&e->lock);
            answer(e, c, true);
            pthread_mutex_unlock(&e->lock);
        }
        more = 1;
    }
    zmq_msg_close(&id);
    zmq_msg_close(&body);
    return more;
}

static void *serve(void *arg)
{
    struct mf_edge_server *e = arg;
    for (bool over = false; !over;) {
        zmq_pollitem_t ready[] = {{.socket = e->router, .events = ZMQ_POLLIN}, {.fd = e->wake, .events = ZMQ_POLLIN}};
        uint64_t changes;
        if (zmq_poll(ready, 2, -1) < 0)
            continue;
        bool woken = ready[1].revents && read(e->wake, &changes, sizeof changes) > 0;
        while (take_question(e))
            continue;
        if (!woken)
            continue;
        pthread_mutex_lock(&e->lock);
        for (int i = 0; i < e->n_clients; i++)
            answer(e, &e->clients[i], false);
        over = e->over;
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

static void state_free(struct state *s)
{
    zmq_msg_close(s->bytes);
    free(s->bytes);
}

static void server_free(struct mf_edge_server *e)
{
    if (e->router)
        zmq_close(e->router);
    for (int i = 0; i < e->n_releases; i++)
        release_free(&e->releases[i]);
    for (int i = 0; i < e->n_states; i++)
        state_free(&e->states[i]);
    if (e->context)
        zmq_ctx_term(e->context);
    if (e->path)
        unlink(e->path);
    free(e->path);
    if (e->wake >= 0)
        close(e->wake);
    pthread_mutex_destroy(&e->lock);
    free(e->releases);
    free(e->states);
    free(e);
}

/* libzmq unlinks whatever lies at an ipc path before it binds: only a socket may go that way. */
static int bind_address(struct mf_edge_server *e, const char *address, struct mf_err *err)
{
    struct stat st;
    const char *path = strncmp(address, "ipc://", 6) ? NULL : address + 6;
    if (path && lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
        return mf_err_set(err, MF_EIO, "cannot serve the policy at %s: something that is no socket is there", address);
    int must = 1;
    zmq_setsockopt(e->router, ZMQ_ROUTER_MANDATORY, &must, sizeof must);
    if (zmq_bind(e->router, address) < 0)
        return mf_err_set(err, MF_EIO, "cannot serve the policy at %s: %s", address, zmq_strerror(errno));
    e->path = path ? mf_xstrdup(path) : NULL;
    return path && chmod(path, 0600) < 0 ? mf_err_errno(err, "cannot close %s to others", path) : 0;
}

int mf_edge_serve(struct mf_edge_server **out, const char *address, int keep, struct mf_err *err)
{
    int rc = mf_edge_check_address(address, err);
    if (rc)
        return rc;
    struct mf_edge_server *e = mf_xcalloc(1, sizeof *e);
    e->keep = keep > 0 ? keep : 1;
    e->releases = mf_xcalloc((size_t)e->keep, sizeof *e->releases);
    e->wake = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_init(&e->lock, NULL);
    if (e->wake < 0)
        rc = mf_err_errno(err, "cannot make an eventfd");
    if (!rc)
        rc = mf_edge_socket(&e->context, &e->router, ZMQ_ROUTER, MF_EDGE_NOTE_MAX, address, err);
    if (!rc)
        rc = bind_address(e, address, err);
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
    pthread_mutex_unlock(&e->lock);
    wake(e);
    release_free(&old);
    return 0;
}

int mf_edge_give_state(struct mf_edge_server *e, const char *src, int64_t version, const void *bytes, size_t size,
                       struct mf_err *err)
{
    struct state s = {.version = version};
    if (strlen(src) >= sizeof s.src)
        return mf_err_set(err, MF_EFORMAT, "the source's name %s is longer than %d bytes", src, MF_EDGE_SRC - 1);
    strcpy(s.src, src);
    s.bytes = mf_xcalloc(1, sizeof *s.bytes);
    int rc = message(s.bytes, bytes, size, err);
    if (rc) {
        free(s.bytes);
        return rc;
    }
    pthread_mutex_lock(&e->lock);
    struct state *there = find_state(e, src);
    if (there)
        state_free(there);
    else {
        e->states = mf_xrealloc(e->states, (size_t)e->n_states + 1, sizeof *e->states);
        there = &e->states[e->n_states++];
    }
    *there = s;
    pthread_mutex_unlock(&e->lock);
    return 0;
}

void mf_edge_finish(struct mf_edge_server *e)
{
    if (!e)
        return;
    pthread_mutex_lock(&e->lock);
    e->over = true;
    pthread_mutex_unlock(&e->lock);
    wake(e);
    pthread_join(e->thread, NULL);
    server_free(e);
}
