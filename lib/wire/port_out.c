/* A writer on ZeroMQ: see port.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/stop.h"
#include "wire/port_priv.h"

enum { QUEUE = 16 };
static const double short_patience = .5, say_after = 5; /* s */

struct mf_port_out {
    struct mf_socket s;
    double patience, meeting, alone_since;
    bool said;             /* logged that there is no reader yet */
    bool up;               /* connected */
    bool hello;            /* sent on this connection */
    bool resends, renewed; /* renewed: a new connection, not yet reported to the caller */
    bool done;             /* everything was received */
    uint64_t number;       /* of the next frame */
    int64_t sent, taken, window;
    struct mf_err refused; /* code 0: no rejection */
};

static void on_event(struct mf_port_out *z, enum mf_socket_event event)
{
    if (event == MF_SOCKET_UP) {
        z->renewed |= z->s.met;
        z->up = true;
        z->hello = false;
    } else if (event == MF_SOCKET_DOWN) {
        z->up = false;
        z->alone_since = mf_now();
    }
    (void)mf_socket_refused(&z->s, event, &z->refused);
}

static void on_note(struct mf_port_out *z, const struct mf_port *port, const struct mf_port_note *note)
{
    if (note->say == MF_PORT_MORE) {
        z->taken = note->taken;
        z->window = note->window;
    } else if (note->say == MF_PORT_DONE) {
        z->done = true;
    } else if (note->say == MF_PORT_AGAIN) {
        z->renewed = true;
        z->hello = false;
    } else if (note->say == MF_PORT_NO) {
        mf_err_set(&z->refused, MF_EUSAGE, "%s: %s", port->name, note->why);
    }
}

static bool send_note(struct mf_port_out *z, enum mf_port_word say)
{
    char text[MF_NOTE_MAX];
    struct mf_port_note note = {.say = say, .v = MF_PORT_VERSION};
    return zmq_send(z->s.socket, "", 0, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0 &&
           zmq_send(z->s.socket, text, mf_note_write(&mf_port_form, &note, text), ZMQ_DONTWAIT) >= 0;
}

/* Handles connection events and the reader's notes. */
static void listen_in(const struct mf_port *port)
{
    struct mf_port_out *z = port->zmq_out;
    enum mf_socket_event event;
    zmq_msg_t m;
    while (mf_socket_event(&z->s, &event))
        on_event(z, event);
    zmq_msg_init(&m);
    while (zmq_msg_recv(&m, z->s.socket, ZMQ_DONTWAIT) >= 0) {
        struct mf_port_note note = {.say = MF_PORT_HELLO};
        if (!zmq_msg_more(&m) && mf_note_read(&mf_port_form, &note, zmq_msg_data(&m), zmq_msg_size(&m)) && z->hello)
            on_note(z, port, &note);
    }
    zmq_msg_close(&m);
    if (z->up && !z->hello && send_note(z, MF_PORT_HELLO)) {
        z->hello = true;
        z->number = 0;
        z->sent = z->taken = z->window = 0;
    }
}

/* For a writer without a reader so far. */
static int meet(struct mf_port_out *z, const struct mf_port *port, struct mf_err *err)
{
    const double alone = mf_now() - z->alone_since;
    if (z->meeting > 0 && alone >= z->meeting)
        return mf_err_set(err, MF_EIO, "no reader at %s for %g s (collect.policy_timeout): is its program running?",
                          port->name, z->meeting);
    if (alone >= say_after && !z->said) {
        mf_log(MF_LOG_WARN, "no reader at %s yet; waiting for one", port->name);
        z->said = true;
    }
    return 0;
}

static int check(struct mf_port *port, struct mf_err *err)
{
    struct mf_port_out *z = port->zmq_out;
    listen_in(port);
    if (z->refused.code)
        return mf_err_set(err, (enum mf_code)z->refused.code, "%s", z->refused.text);
    if (!z->s.met)
        return meet(z, port, err);
    if (z->renewed && !z->resends)
        return mf_err_set(err, MF_CLOSED, "%s: the reader has lost the stream, which this program cannot send again",
                          port->name);
    const double patience = z->resends ? z->patience : short_patience;
    if (!z->up && mf_now() - z->alone_since >= patience)
        return mf_err_set(err, MF_CLOSED, "%s: the reader is gone, and none came back within %g s", port->name,
                          patience);
    return 0;
}

/* Waits for a note of the reader, or a moment. */
static int wait_a_moment(struct mf_port *port, struct mf_err *err)
{
    struct mf_port_out *z = port->zmq_out;
    zmq_pollitem_t items[] = {{.socket = z->s.socket, .events = ZMQ_POLLIN},
                              {.socket = z->s.monitor, .events = ZMQ_POLLIN}};
    const double since = mf_now();
    int rc = mf_stop_check(err);
    if (rc == 0)
        zmq_poll(items, 2, MF_STOP_TICK);
    port->waited += mf_now() - since;
    return rc;
}

/* Number, then frame: both are sent, or neither. */
static bool put(struct mf_port_out *z, zmq_msg_t *m)
{
    uint8_t number[8];
    for (int i = 0; i < 8; i++)
        number[i] = (uint8_t)(z->number >> 8 * i);
    return zmq_send(z->s.socket, number, sizeof number, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0 &&
           zmq_msg_send(m, z->s.socket, ZMQ_DONTWAIT) >= 0;
}

static int out_sendv(struct mf_port *port, const struct iovec *part, int parts, size_t len, struct mf_err *err)
{
    struct mf_port_out *z = port->zmq_out;
    int64_t size = (int64_t)len;
    zmq_msg_t m;
    if (zmq_msg_init_size(&m, len) < 0)
        return mf_err_set(err, MF_ENOMEM, "%s: cannot allocate %zu bytes for a frame", port->name, len);
    for (char *to = zmq_msg_data(&m); parts--; to += part->iov_len, part++)
        if (part->iov_len)
            memcpy(to, part->iov_base, part->iov_len);
    int rc;
    while (!(rc = check(port, err))) {
        bool room = z->sent == z->taken || z->sent + size - z->taken <= z->window;
        if (z->renewed) /* discarded; the caller resends it */
            break;
        if (z->hello && room && put(z, &m)) {
            z->sent += size;
            z->number++;
            break;
        }
        if ((rc = wait_a_moment(port, err)))
            break;
    }
    zmq_msg_close(&m);
    return rc;
}

static int out_recv(struct mf_port *port, struct mf_port *watch, const void **data, size_t *len, struct mf_err *err)
{
    (void)watch, (void)data, (void)len;
    return mf_err_set(err, MF_EUSAGE, "%s is open for writing only", port->name);
}

static void out_drop(struct mf_port *port)
{
    mf_socket_close(&port->zmq_out->s, 0);
    free(port->zmq_out);
}

static int out_close(struct mf_port *port, struct mf_err *err)
{
    struct mf_port_out *z = port->zmq_out;
    int rc = 0;
    bool said = false;
    while (z->sent && !z->done && !(rc = check(port, err))) {
        if (z->renewed &&
            (rc = mf_err_set(err, MF_CLOSED, "%s: the reader disconnected before the end of the stream", port->name)))
            break;
        said = said || (z->hello && send_note(z, MF_PORT_BYE));
        if (!z->done && (rc = wait_a_moment(port, err)))
            break;
    }
    out_drop(port);
    return rc;
}

static const struct mf_carrier carrier = {out_sendv, out_recv, check, out_close, out_drop};

void mf_port_resends(struct mf_port *port, double patience)
{
    struct mf_port_out *z = port->zmq_out;
    if (!z)
        return;
    z->resends = true;
    z->patience = patience > z->patience ? patience : z->patience;
}

bool mf_port_renewed(struct mf_port *port)
{
    struct mf_port_out *z = port->zmq_out;
    bool renewed = z && z->renewed && z->hello;
    if (renewed)
        z->renewed = false;
    return renewed;
}

int mf_port_open_out(struct mf_port *port, const char *address, bool bind, const struct mf_wire_opts *o,
                     struct mf_err *err)
{
    struct mf_port_out *z = port->zmq_out = mf_xcalloc(1, sizeof *z);
    char id[17] = "w"; /* its identity, kept after a lost connection */
    port->carrier = &carrier;
    z->meeting = o ? o->meeting : 0;
    z->alone_since = mf_now();
    z->patience = o && o->patience > 0 ? o->patience : short_patience;
    int rc = mf_socket_open(&z->s, ZMQ_DEALER, address, bind, o, MF_NOTE_MAX, err);
    if (rc == 0 && getentropy(id + 1, sizeof id - 1) < 0)
        rc = mf_err_errno(err, "draw a name for %s", port->name);
    if (rc == 0) {
        zmq_setsockopt(z->s.socket, ZMQ_ROUTING_ID, id, sizeof id);
        mf_socket_set(&z->s, ZMQ_IMMEDIATE, 1); /* no queue before there is a reader */
        mf_socket_set(&z->s, ZMQ_SNDHWM, QUEUE);
        mf_socket_set(&z->s, ZMQ_RECONNECT_IVL, 50);
        mf_socket_set(&z->s, ZMQ_RECONNECT_IVL_MAX, 1000);
        rc = mf_socket_attach(&z->s, err);
    }
    if (rc)
        out_drop(port);
    return rc;
}
