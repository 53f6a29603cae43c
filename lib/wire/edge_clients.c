#include "wire/edge_clients.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

static bool send_bytes(struct mf_socket *router, const void *bytes, size_t size, int flags)
{
    return zmq_send(router->socket, bytes, size, flags | ZMQ_DONTWAIT) >= 0;
}

static bool send_shared(struct mf_socket *router, zmq_msg_t *m, int flags)
{
    zmq_msg_t copy;
    zmq_msg_init(&copy);
    bool good = zmq_msg_copy(&copy, m) == 0 && zmq_msg_send(&copy, router->socket, flags | ZMQ_DONTWAIT) >= 0;
    if (!good)
        zmq_msg_close(&copy);
    return good;
}

static bool same_id(const struct mf_edge_asker *c, const void *id, size_t size)
{
    return !c->gone && c->id_size == size && !memcmp(c->id, id, size);
}

/* The connection of *c is down. */
static void forget(struct mf_edge_clients *q, const struct mf_edge_asker *c)
{
    const struct mf_edge_asker was = *c;
    for (int i = 0; i < q->n; i++)
        q->c[i].gone |= same_id(&q->c[i], was.id, was.id_size);
}

bool mf_edge_reply(struct mf_edge_clients *q, struct mf_socket *router, const struct mf_edge_asker *c,
                   const struct mf_edge_note *note, zmq_msg_t *part, zmq_msg_t *state)
{
    char text[MF_NOTE_MAX];
    const int parts = (int)(note->parts + note->state);
    if (!send_bytes(router, c->id, c->id_size, ZMQ_SNDMORE)) {
        if (errno == EHOSTUNREACH)
            forget(q, c);
        return false;
    }
    bool good = send_bytes(router, text, mf_note_write(&mf_edge_form, note, text), parts ? ZMQ_SNDMORE : 0);
    for (int i = 0; i < note->parts && good; i++)
        good = send_shared(router, &part[i], i + 1 < parts ? ZMQ_SNDMORE : 0);
    return good && (!note->state || send_shared(router, state, 0));
}

/* Of a connection that ends a ROUTER says nothing: a message finds out. */
static void find_gone(struct mf_edge_clients *q, struct mf_socket *router)
{
    for (int i = 0; i < q->n; i++) {
        const struct mf_edge_note life = {.say = MF_EDGE_WAIT, .seq = q->c[i].seq, .version = q->c[i].version};
        if (!q->c[i].gone)
            (void)mf_edge_reply(q, router, &q->c[i], &life, NULL, NULL);
    }
}

/* A table that is full first finds out who is gone. */
static struct mf_edge_asker *a_free_one(struct mf_edge_clients *q, struct mf_socket *router)
{
    for (int swept = q->n < q->room;; swept++) {
        for (int i = 0; i < q->n; i++)
            if (q->c[i].gone)
                return &q->c[i];
        if (q->n < q->room)
            return &q->c[q->n++];
        if (!swept) {
            find_gone(q, router);
        } else {
            q->room = q->room ? 2 * q->room : 16;
            q->c = mf_xrealloc(q->c, (size_t)q->room, sizeof *q->c);
        }
    }
}

static int connections(const struct mf_edge_clients *q)
{
    int n = 0;
    for (int i = 0; i < q->n; i++)
        n += !q->c[i].gone && q->c[i].first;
    return n;
}

/* Refuses a client beyond the limit of open files. */
static bool turn_away(struct mf_edge_clients *q, struct mf_socket *router, const void *id, size_t size,
                      const struct mf_edge_note *asked)
{
    if (mf_socket_has_room(router, connections(q)))
        return false;
    find_gone(q, router);
    if (mf_socket_has_room(router, connections(q)))
        return false;
    struct mf_edge_note no = {.say = MF_EDGE_NO, .seq = asked->seq, .version = asked->version};
    struct mf_edge_asker c = {.id_size = size};
    memcpy(c.id, id, size);
    mf_socket_full(no.why, sizeof no.why);
    (void)mf_edge_reply(q, router, &c, &no, NULL, NULL);
    mf_log_rarely(&q->full, MF_LOG_WARN, "%s: refused a client: %s", router->name, no.why);
    return true;
}

static struct mf_edge_asker *client_of(struct mf_edge_clients *q, struct mf_socket *router, const void *id, size_t size,
                                       const struct mf_edge_note *note)
{
    bool first = true;
    for (int i = 0; i < q->n; i++) {
        if (!same_id(&q->c[i], id, size))
            continue;
        if (!strcmp(q->c[i].src, note->src))
            return &q->c[i];
        first = false;
    }
    if (first && turn_away(q, router, id, size, note))
        return NULL;
    struct mf_edge_asker *c = a_free_one(q, router);
    *c = (struct mf_edge_asker){.id_size = size, .seq = -1, .first = first};
    memcpy(c->id, id, size);
    memcpy(c->src, note->src, sizeof c->src);
    return c;
}

bool mf_edge_question(struct mf_edge_clients *q, struct mf_socket *router, struct mf_edge_asker **c)
{
    zmq_msg_t id, body;
    struct mf_edge_note note = {.say = MF_EDGE_WAIT};
    int parts = 0;
    *c = NULL;
    zmq_msg_init(&id);
    zmq_msg_init(&body);
    const bool came = zmq_msg_recv(&id, router->socket, ZMQ_DONTWAIT) >= 0;
    for (int more = came && zmq_msg_more(&id); more; parts++) {
        zmq_msg_recv(&body, router->socket, 0);
        more = zmq_msg_more(&body);
    }
    if (parts == 1 && zmq_msg_size(&id) <= sizeof q->c->id &&
        mf_note_read(&mf_edge_form, &note, zmq_msg_data(&body), zmq_msg_size(&body)) &&
        (note.say == MF_EDGE_WANT || note.say == MF_EDGE_JOIN || note.say == MF_EDGE_WATCH))
        *c = client_of(q, router, zmq_msg_data(&id), zmq_msg_size(&id), &note);
    if (*c) {
        if (note.seq != (*c)->seq) {
            (*c)->waits = true;
            (*c)->ahead = 0;
            (*c)->fetches = false;
            (*c)->refused &= note.say != MF_EDGE_JOIN; /* behind a relay, another process of that name */
        }
        (*c)->seq = note.seq;
        (*c)->version = note.version;
        (*c)->say = note.say;
    }
    zmq_msg_close(&id);
    zmq_msg_close(&body);
    return came;
}
