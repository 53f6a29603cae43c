/* A reader on ZeroMQ, and its writers: see port.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/stop.h"
#include "wire/port_priv.h"

enum { QUEUE = 16, ID_MAX = 255, WINDOWS = 128 << 20, WINDOW_MIN = 1 << 20 };
static const double ping_every = 1, short_patience = .5; /* s */

enum state { FREE, HERE, GONE, LEAVES, REFUSED }; /* LEAVES: it said bye, and its connection is still up */

struct peer {
    char id[ID_MAX];
    size_t id_size;
    enum state state;
    double since;        /* GONE: when */
    uint64_t number;     /* of the next frame */
    int64_t taken, told; /* bytes consumed; bytes reported to the writer */
};

struct mf_port_in {
    struct mf_socket s;
    double patience, pinged;
    struct peer *peer; /* (room) grows */
    int n, room;       /* in use: the first n */
    struct mf_rarely too_many, versions;
    zmq_msg_t msg;
    size_t lent; /* bytes of msg lent to the caller */
};

static int count(const struct mf_port_in *z, enum state a, enum state b)
{
    int n = 0;
    for (int i = 0; i < z->n; i++)
        n += z->peer[i].state == a || z->peer[i].state == b;
    return n;
}

/* False: it is gone. A writer whose queue is full is busy, not gone. */
static bool send_note(struct mf_port_in *z, const void *id, size_t size, const struct mf_port_note *note)
{
    char text[MF_NOTE_MAX];
    if (zmq_send(z->s.socket, id, size, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0)
        return errno == EAGAIN;
    zmq_send(z->s.socket, "", 0, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    zmq_send(z->s.socket, text, mf_note_write(&mf_port_form, note, text), ZMQ_DONTWAIT);
    return true;
}

static bool tell(struct mf_port_in *z, struct peer *p, enum mf_port_word say, const char *why)
{
    int here = count(z, HERE, HERE), share = WINDOWS / (here ? here : 1);
    struct mf_port_note note = {.say = say, .taken = p->taken, .window = share < WINDOW_MIN ? WINDOW_MIN : share};
    if (why)
        snprintf(note.why, sizeof note.why, "%s", why);
    p->told = p->taken;
    return send_note(z, p->id, p->id_size, &note);
}

/* Refuses a writer beyond the limit of open files. */
static void turn_away(struct mf_port *port, const void *id, size_t size)
{
    struct mf_port_note note = {.say = MF_PORT_NO};
    mf_socket_full(note.why, sizeof note.why);
    send_note(port->zmq_in, id, size, &note);
    mf_log_rarely(&port->zmq_in->too_many, MF_LOG_WARN, "%s: refused a writer: %s", port->name, note.why);
}

static void ping(struct mf_port_in *z, struct peer *p)
{
    if ((p->state == HERE || p->state == LEAVES) && !tell(z, p, MF_PORT_MORE, NULL)) {
        p->state = p->state == HERE ? GONE : FREE;
        p->since = mf_now();
    }
}

static struct peer *find(struct mf_port_in *z, const void *id, size_t size)
{
    for (int i = 0; i < z->n; i++)
        if (z->peer[i].state != FREE && z->peer[i].id_size == size && !memcmp(z->peer[i].id, id, size))
            return &z->peer[i];
    return NULL;
}

static struct peer *make(struct mf_port_in *z, const void *id, size_t size)
{
    int i = 0;
    while (i < z->n && z->peer[i].state != FREE && z->peer[i].state != REFUSED)
        i++;
    if (i == z->room) {
        z->room = z->room ? 2 * z->room : 16;
        z->peer = mf_xrealloc(z->peer, (size_t)z->room, sizeof *z->peer);
    }
    z->n = i == z->n ? i + 1 : z->n;
    z->peer[i] = (struct peer){.id_size = size}; /* libzmq's ids have at most ID_MAX bytes */
    memcpy(z->peer[i].id, id, size);
    return &z->peer[i];
}

/* 0: nothing for the caller; otherwise the result of recv. */
static int on_note(struct mf_port *port, struct peer *p, zmq_msg_t *id, const struct mf_port_note *note)
{
    struct mf_port_in *z = port->zmq_in;
    char why[96];
    if (note->say == MF_PORT_HELLO && (!p || p->state < LEAVES)) {
        if (!p && !mf_socket_has_room(&z->s, count(z, HERE, LEAVES))) {
            turn_away(port, zmq_msg_data(id), zmq_msg_size(id));
            return 0;
        }
        if (!p)
            p = make(z, zmq_msg_data(id), zmq_msg_size(id));
        p->state = HERE;
        p->number = 0;
        p->taken = p->told = 0;
        if (note->v == MF_PORT_VERSION) {
            ping(z, p);
            return 0;
        }
        snprintf(why, sizeof why, "it speaks version %d of the transport protocol, you speak version %lld",
                 MF_PORT_VERSION, (long long)note->v);
        mf_port_refuse(port, (int)(p - z->peer), why);
        mf_log_rarely(&z->versions, MF_LOG_WARN,
                      "%s: refused a writer: it speaks version %lld of the transport protocol, not %d", port->name,
                      (long long)note->v, MF_PORT_VERSION);
    } else if (note->say == MF_PORT_BYE && p && p->state < LEAVES) {
        tell(z, p, MF_PORT_DONE, NULL);
        p->state = LEAVES;
        port->from = (int)(p - z->peer);
        return MF_PORT_LEFT;
    }
    return 0;
}

static int on_frame(struct mf_port *port, struct peer *p, const void *number, const void **data, size_t *len,
                    struct mf_err *err)
{
    struct mf_port_in *z = port->zmq_in;
    uint64_t n = 0;
    struct mf_scan scan;
    for (int i = 8; i-- > 0;)
        n = n << 8 | ((const uint8_t *)number)[i];
    if (!p || p->state >= LEAVES || n != p->number)
        return 0; /* from a lost connection, or an unknown peer: hello must come first */
    p->number++;
    port->from = (int)(p - z->peer);
    *data = zmq_msg_data(&z->msg);
    *len = z->lent = zmq_msg_size(&z->msg);
    mf_scan_start(&scan);
    int rc = mf_port_scan(port, &scan, *data, *len, err);
    if (rc >= 0 && (rc == 0 || scan.at != *len))
        return mf_err_set(err, MF_EFORMAT, "%s: a message of %zu bytes at byte %llu is not one whole frame", port->name,
                          *len, (unsigned long long)port->offset);
    return rc;
}

/* One message, [id, number, frame] or [id, "", note], in z->msg. False: none. */
static bool take_message(struct mf_port_in *z, zmq_msg_t *id, zmq_msg_t *number, int *parts)
{
    if (zmq_msg_recv(id, z->s.socket, ZMQ_DONTWAIT) < 0)
        return false;
    *parts = 1;
    for (bool more = zmq_msg_more(id); more; ++*parts) {
        zmq_msg_t *m = *parts == 1 ? number : &z->msg;
        zmq_msg_recv(m, z->s.socket, 0);
        more = zmq_msg_more(m);
    }
    return true;
}

static int take(struct mf_port *port, bool *came, const void **data, size_t *len, struct mf_err *err)
{
    struct mf_port_in *z = port->zmq_in;
    struct mf_port_note note = {.say = MF_PORT_MORE};
    zmq_msg_t id, number;
    int parts = 0, rc = 0;
    zmq_msg_init(&id);
    zmq_msg_init(&number);
    *came = take_message(z, &id, &number, &parts);
    if (*came && parts == 3) {
        struct peer *p = find(z, zmq_msg_data(&id), zmq_msg_size(&id));
        if (zmq_msg_size(&number) == 8)
            rc = on_frame(port, p, zmq_msg_data(&number), data, len, err);
        else if (zmq_msg_size(&number) == 0 &&
                 mf_note_read(&mf_port_form, &note, zmq_msg_data(&z->msg), zmq_msg_size(&z->msg)))
            rc = on_note(port, p, &id, &note);
    }
    zmq_msg_close(&id);
    zmq_msg_close(&number);
    return rc;
}

/* Every second, and before waiting: a sign of life with the consumed bytes. */
static void look_around(struct mf_port *port, bool idle)
{
    struct mf_port_in *z = port->zmq_in;
    enum mf_socket_event event;
    bool due = mf_now() - z->pinged >= ping_every;
    while (mf_socket_event(&z->s, &event)) {
        due |= event == MF_SOCKET_DOWN;
        if (event == MF_SOCKET_MISMATCH)
            mf_socket_log_mismatch(&z->s);
    }
    for (int i = 0; i < z->n; i++)
        if (due || z->peer[i].taken - z->peer[i].told >= (idle ? 1 : WINDOW_MIN / 4))
            ping(z, &z->peer[i]);
    if (due) {
        z->pinged = mf_now();
        mf_socket_count(&z->s, count(z, HERE, LEAVES));
    }
}

/* A writer whose patience is over, if any. */
static bool one_left(struct mf_port *port)
{
    struct mf_port_in *z = port->zmq_in;
    for (int i = 0; i < z->n; i++)
        if (z->peer[i].state == GONE && mf_now() - z->peer[i].since >= z->patience) {
            z->peer[i].state = FREE;
            port->from = i;
            return true;
        }
    return false;
}

static int in_recv(struct mf_port *port, struct mf_port *watch, const void **data, size_t *len, struct mf_err *err)
{
    struct mf_port_in *z = port->zmq_in;
    if (z->lent)
        z->peer[port->from].taken += (int64_t)z->lent;
    z->lent = 0;
    zmq_msg_close(&z->msg); /* kept until the next frame is requested */
    zmq_msg_init(&z->msg);
    for (;;) {
        bool came;
        if (watch && mf_port_renewed(watch))
            return MF_PORT_RENEWED;
        look_around(port, false);
        int rc = take(port, &came, data, len, err);
        if (rc)
            return rc;
        if (came)
            continue;
        look_around(port, true);
        if ((rc = mf_stop_check(err)) || (watch && (rc = mf_port_check(watch, err))))
            return rc;
        if (one_left(port))
            return MF_PORT_LEFT;
        if (mf_port_is_late(port))
            return MF_PORT_LATE;
        zmq_pollitem_t items[] = {{.socket = z->s.socket, .events = ZMQ_POLLIN},
                                  {.socket = z->s.monitor, .events = ZMQ_POLLIN}};
        const double since = mf_now();
        zmq_poll(items, 2, MF_STOP_TICK);
        port->waited += mf_now() - since;
    }
}

static int in_sendv(struct mf_port *port, const struct iovec *part, int parts, size_t len, struct mf_err *err)
{
    (void)part, (void)parts, (void)len;
    return mf_err_set(err, MF_EUSAGE, "%s is open for reading only", port->name);
}

static int in_check(struct mf_port *port, struct mf_err *err)
{
    (void)port, (void)err;
    return 0;
}

static void in_drop(struct mf_port *port)
{
    zmq_msg_close(&port->zmq_in->msg);
    mf_socket_close(&port->zmq_in->s, 200);
    free(port->zmq_in->peer);
    free(port->zmq_in);
}

/* Tells connected writers that everything was received. The socket waits until they have left, since unread messages
 * are lost with the connection. */
static int in_close(struct mf_port *port, struct mf_err *err)
{
    struct mf_port_in *z = port->zmq_in;
    int rc = 0;
    for (int i = 0; i < z->n; i++)
        if (z->peer[i].state == HERE)
            tell(z, &z->peer[i], MF_PORT_DONE, NULL);
    for (double until = mf_now() + 2; count(z, HERE, LEAVES) && mf_now() < until && !(rc = mf_stop_check(err));) {
        zmq_pollitem_t item = {.socket = z->s.monitor, .events = ZMQ_POLLIN};
        zmq_poll(&item, 1, 20);
        z->pinged = 0;
        look_around(port, true);
    }
    in_drop(port);
    return rc;
}

static const struct mf_carrier carrier = {in_sendv, in_recv, in_check, in_close, in_drop};

bool mf_port_is_here(struct mf_port *port, int from)
{
    struct mf_port_in *z = port->zmq_in;
    if (!z)
        return true;
    ping(z, &z->peer[from]);
    return z->peer[from].state == HERE;
}

/* No frame has the number that is due until the writer's hello. */
void mf_port_again(struct mf_port *port)
{
    struct mf_port_in *z = port->zmq_in;
    for (int i = 0; i < z->n; i++)
        if (z->peer[i].state == HERE || z->peer[i].state == GONE) {
            z->peer[i].number = UINT64_MAX;
            z->peer[i].taken = 0;
            tell(z, &z->peer[i], MF_PORT_AGAIN, NULL);
        }
}

int mf_port_writers(const struct mf_port *port)
{
    return count(port->zmq_in, HERE, HERE);
}

void mf_port_refuse(struct mf_port *port, int from, const char *why)
{
    struct peer *p = &port->zmq_in->peer[from];
    tell(port->zmq_in, p, MF_PORT_NO, why);
    p->state = REFUSED;
}

int mf_port_open_in(struct mf_port *port, const char *address, bool bind, const struct mf_wire_opts *o,
                    struct mf_err *err)
{
    struct mf_port_in *z = port->zmq_in = mf_xcalloc(1, sizeof *z);
    port->carrier = &carrier;
    z->patience = o && o->patience > 0 ? o->patience : short_patience;
    zmq_msg_init(&z->msg);
    int rc = mf_socket_open(&z->s, ZMQ_ROUTER, address, bind, o, MF_FRAME_MAX, err);
    if (rc == 0) {
        mf_socket_set(&z->s, ZMQ_ROUTER_MANDATORY, 1);
        mf_socket_set(&z->s, ZMQ_ROUTER_HANDOVER, 1);
        mf_socket_set(&z->s, ZMQ_RCVHWM, QUEUE);
        rc = mf_socket_attach(&z->s, err);
    }
    if (rc)
        in_drop(port);
    return rc;
}
