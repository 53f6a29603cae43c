#include <errno.h>
#include <libgen.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/stop.h"
#include "wire/loopback.h"
#include "wire/port_priv.h"

enum { LINES = 64, HIGH_WATER = 4 };
static const double grace = .5;                           /* s */
static const char monitor_address[] = "inproc://monitor"; /* a context per port */

/* A connection, and a duplicate of its descriptor that keeps it up until the
 * reader has taken all: a PULL that is not reading when its ipc connection
 * hangs up loses what lies in the kernel. */
struct line {
    int fd, held;
};

struct mf_zmq {
    void *ctx, *sock, *monitor;
    zmq_msg_t msg;
    enum mf_dir dir;
    char *path; /* of the ipc socket that was bound, which libzmq leaves behind, and its inode: it may be another's by
                   then */
    ino_t inode;
    bool met, finished; /* a handshake was seen; the socket is destroyed, all is written */
    int peers;
    double alone_since;
    struct line line[LINES];
};

static void hold(struct mf_zmq *z, int fd)
{
    for (int i = 0; z->dir == MF_OUT && i < LINES; i++)
        if (z->line[i].held < 0) {
            z->line[i] = (struct line){fd, dup(fd)};
            return;
        }
}

static void let_go(struct mf_zmq *z, int fd)
{
    for (int i = 0; i < LINES; i++)
        if (z->line[i].held >= 0 && z->line[i].fd == fd) {
            close(z->line[i].held);
            z->line[i].held = -1;
        }
}

static void on_event(struct mf_zmq *z, int event, int value)
{
    switch (event) {
    case ZMQ_EVENT_ACCEPTED:
    case ZMQ_EVENT_CONNECTED:
        z->peers++;
        hold(z, value);
        break;
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        z->met = true;
        break;
    case ZMQ_EVENT_DISCONNECTED:
        z->peers--;
        z->alone_since = mf_now();
        let_go(z, value);
        break;
    case ZMQ_EVENT_MONITOR_STOPPED:
        z->finished = true;
    }
}

/* What happened to the connections since the last question: pairs of {event u16, value u32} and an address. */
static void listen_in(struct mf_zmq *z)
{
    zmq_msg_t m;
    zmq_msg_init(&m);
    while (!z->finished && zmq_msg_recv(&m, z->monitor, ZMQ_DONTWAIT) >= 0) {
        uint16_t event;
        uint32_t value;
        if (zmq_msg_size(&m) != sizeof event + sizeof value || !zmq_msg_more(&m))
            continue;
        memcpy(&event, zmq_msg_data(&m), sizeof event);
        memcpy(&value, (char *)zmq_msg_data(&m) + sizeof event, sizeof value);
        on_event(z, event, (int)value);
    }
    zmq_msg_close(&m);
}

static bool zmq_reader_gone(struct mf_port *port)
{
    struct mf_zmq *z = port->zmq;
    listen_in(z);
    return z->met && z->peers <= 0 && mf_now() - z->alone_since >= grace;
}

static int fail(const struct mf_port *port, const char *what, struct mf_err *err)
{
    return mf_err_set(err, MF_EIO, "%s %s: %s", what, port->name, zmq_strerror(errno));
}

static int zmq_sendv(struct mf_port *port, const struct iovec *part, int parts, size_t len, struct mf_err *err)
{
    struct mf_zmq *z = port->zmq;
    zmq_msg_t m;
    if (zmq_msg_init_size(&m, len) < 0)
        return mf_err_set(err, MF_ENOMEM, "%s: cannot allocate %zu bytes for a frame", port->name, len);
    for (char *to = zmq_msg_data(&m); parts--; to += part->iov_len, part++)
        if (part->iov_len)
            memcpy(to, part->iov_base, part->iov_len);
    int rc = 0;
    do {
        if (zmq_reader_gone(port))
            rc = mf_err_set(err, MF_CLOSED, "%s: nobody reads any more", port->name);
        else if (!(rc = mf_stop_check(err)) && zmq_msg_send(&m, z->sock, 0) >= 0)
            return 0;
        else if (!rc && errno != EAGAIN && errno != EINTR)
            rc = fail(port, "write", err);
    } while (!rc);
    zmq_msg_close(&m);
    return rc;
}

static int zmq_take(struct mf_port *port, struct mf_port *watch, const void **data, size_t *len, struct mf_err *err)
{
    struct mf_zmq *z = port->zmq;
    struct mf_scan scan;
    int rc;
    while (zmq_msg_recv(&z->msg, z->sock, 0) < 0) {
        if (errno != EAGAIN && errno != EINTR)
            return fail(port, "read", err);
        if ((rc = mf_stop_check(err)))
            return rc;
        if (watch && mf_port_reader_gone(watch))
            return mf_err_set(err, MF_CLOSED, "%s: nobody reads any more", mf_port_name(watch));
        if (zmq_reader_gone(port)) /* of a PULL the peers are writers */
            return 0;
    }
    *data = zmq_msg_data(&z->msg);
    *len = zmq_msg_size(&z->msg);
    mf_scan_start(&scan);
    rc = mf_port_scan(port, &scan, *data, *len, err);
    if (rc >= 0 && (rc == 0 || scan.at != *len))
        return mf_err_set(err, MF_EFORMAT, "%s: a message of %zu bytes at byte %llu is not one whole frame", port->name,
                          *len, (unsigned long long)port->offset);
    return rc;
}

static void forget(struct mf_zmq *z)
{
    for (int i = 0; i < LINES; i++)
        if (z->line[i].held >= 0)
            close(z->line[i].held);
    zmq_msg_close(&z->msg);
    if (z->monitor)
        zmq_close(z->monitor);
    if (z->ctx)
        zmq_ctx_term(z->ctx);
    struct stat st;
    if (z->path && stat(z->path, &st) == 0 && st.st_ino == z->inode)
        unlink(z->path);
    free(z->path);
    free(z);
}

static void zmq_drop(struct mf_port *port)
{
    int linger = 0;
    if (port->zmq->sock) {
        zmq_setsockopt(port->zmq->sock, ZMQ_LINGER, &linger, sizeof linger);
        zmq_close(port->zmq->sock);
    }
    forget(port->zmq);
}

/* Bytes that the kernel still holds for a reader that is there. */
static bool pending(const struct line *l)
{
    struct pollfd p = {.fd = l->held};
    int bytes = 0;
    if (l->held < 0 || (poll(&p, 1, 0) > 0 && p.revents & (POLLERR | POLLHUP)))
        return false;
    return ioctl(l->held, SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

/* libzmq tells nobody that a message arrived. Its socket lives on after zmq_close until all is written or the
 * reader is gone, and the monitor says when; then the lines are held until the reader's side has taken the rest. */
static int zmq_finish(struct mf_port *port, struct mf_err *err)
{
    struct mf_zmq *z = port->zmq;
    int rc;
    if (z->dir == MF_IN) {
        zmq_drop(port);
        return 0;
    }
    listen_in(z);
    zmq_close(z->sock);
    while (!z->finished) {
        zmq_pollitem_t item = {.socket = z->monitor, .events = ZMQ_POLLIN};
        if ((rc = mf_stop_check(err)))
            return rc; /* the context cannot end before its messages do: it is left to the process's end */
        zmq_poll(&item, 1, MF_STOP_TICK);
        listen_in(z);
    }
    for (int i = 0; i < LINES; i++)
        while (pending(&z->line[i])) {
            if ((rc = mf_stop_check(err)))
                return rc;
            poll(NULL, 0, 2);
        }
    forget(z);
    return 0;
}

static const struct mf_carrier zmq_carrier = {zmq_sendv, zmq_take, zmq_reader_gone, zmq_finish, zmq_drop};

static void set(struct mf_zmq *z, int option, int value)
{
    zmq_setsockopt(z->sock, option, &value, sizeof value);
}

static void configure(struct mf_zmq *z)
{
    int64_t largest = MF_FRAME_MAX;
    zmq_setsockopt(z->sock, ZMQ_MAXMSGSIZE, &largest, sizeof largest);
    set(z, ZMQ_RCVTIMEO, MF_STOP_TICK);
    set(z, ZMQ_SNDTIMEO, MF_STOP_TICK);
    set(z, ZMQ_RCVHWM, HIGH_WATER);
    set(z, ZMQ_SNDHWM, HIGH_WATER);
    if (z->dir == MF_OUT) /* no queue before there is a reader; a PULL would drop what it has not read at a hang-up */
        set(z, ZMQ_IMMEDIATE, 1);
    set(z, ZMQ_LINGER, -1); /* close waits, drop does not */
}

static int attach(struct mf_port *port, const char *address, bool bind, struct mf_err *err)
{
    struct mf_zmq *z = port->zmq;
    const char *path = strncmp(address, "ipc://", 6) ? NULL : address + 6;
    if (!bind)
        return zmq_connect(z->sock, address) < 0 ? fail(port, "connect", err) : 0;
    if (path) { /* a socket's folder keeps others out, and so does the socket */
        char *copy = mf_xstrdup(path);
        mkdir(dirname(copy), 0700);
        free(copy);
    }
    if (zmq_bind(z->sock, address) < 0)
        return fail(port, "bind", err);
    struct stat st;
    if (path && (chmod(path, 0600) < 0 || stat(path, &st) < 0))
        return mf_err_errno(err, "chmod %s", path);
    if (path) {
        z->path = mf_xstrdup(path);
        z->inode = st.st_ino;
    }
    return 0;
}

int mf_port_open_zmq(struct mf_port *port, const char *address, enum mf_dir dir, bool bind, struct mf_err *err)
{
    int events = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_CONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED |
                 ZMQ_EVENT_MONITOR_STOPPED;
    int rc = mf_loopback_check(address, err);
    if (rc)
        return rc;
    struct mf_zmq *z = port->zmq = mf_xcalloc(1, sizeof *z);
    port->carrier = &zmq_carrier;
    z->dir = dir;
    zmq_msg_init(&z->msg);
    for (int i = 0; i < LINES; i++)
        z->line[i].held = -1;
    if (!(z->ctx = zmq_ctx_new()) || !(z->sock = zmq_socket(z->ctx, dir == MF_IN ? ZMQ_PULL : ZMQ_PUSH)) ||
        !(z->monitor = zmq_socket(z->ctx, ZMQ_PAIR)) || zmq_socket_monitor(z->sock, monitor_address, events) < 0 ||
        zmq_connect(z->monitor, monitor_address) < 0)
        rc = fail(port, "open", err);
    if (!rc) {
        configure(z);
        rc = attach(port, address, bind, err);
    }
    if (rc)
        zmq_drop(port);
    return rc;
}
