#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/stop.h"
#include "wire/call_priv.h"
#include "wire/port.h"
#include "wire/socket.h"
#include "wire/token.h"

static const char monitor_address[] = "inproc://monitor"; /* a context per call */

static int fail(const struct mf_call *c, const char *what, struct mf_err *err)
{
    return mf_err_set(err, MF_EIO, "%s %s: %s", what, c->name, zmq_strerror(errno));
}

/* Until the socket is ready; a connection that ends meanwhile takes the answer with it. */
static int wait_for(struct mf_call *c, short events, double deadline, struct mf_err *err)
{
    for (;;) {
        zmq_pollitem_t item[2] = {{.socket = c->sock, .events = events}, {.socket = c->monitor, .events = ZMQ_POLLIN}};
        int n = zmq_poll(item, c->monitor ? 2 : 1, MF_STOP_TICK), rc;
        if (n < 0 && errno != EINTR)
            return fail(c, "poll", err);
        if (n > 0 && item[0].revents)
            return 0;
        if (n > 0 && item[1].revents)
            return mf_err_set(err, MF_CLOSED, "%s hung up", c->name);
        if ((rc = mf_call_wait_on(c, deadline, err)))
            return rc;
    }
}

static int put(struct mf_call *c, const void *frame, size_t len, double deadline, struct mf_err *err)
{
    bool asks = c->monitor;
    int rc = asks ? wait_for(c, ZMQ_POLLOUT, deadline, err) : 0;
    if (rc)
        return rc;
    if (asks && zmq_send(c->sock, "", 0, ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0)
        return fail(c, "write to", err);
    return zmq_send(c->sock, frame, len, ZMQ_DONTWAIT) < 0 ? fail(c, "write to", err) : 0;
}

static int whole(const struct mf_call *c, const void *frame, size_t len, struct mf_err *err)
{
    struct mf_scan s;
    struct mf_token first;
    mf_scan_start(&s);
    if (len && mf_token_read(&first, frame, len) == 1 && first.type == MF_MAP &&
        mf_scan_more(&s, frame, len, MF_FRAME_MAX) == 1 && s.at == len)
        return 0;
    return mf_err_set(err, MF_EFORMAT, "%s sent a message of %zu bytes that is no MessagePack map", c->name, len);
}

static int get(struct mf_call *c, double deadline, const void **frame, size_t *len, struct mf_err *err)
{
    int rc = wait_for(c, ZMQ_POLLIN, deadline, err);
    if (rc)
        return rc;
    do { /* the last part: the others are delimiters */
        if (zmq_msg_recv(&c->msg, c->sock, ZMQ_DONTWAIT) < 0)
            return fail(c, "read from", err);
    } while (zmq_msg_more(&c->msg));
    *frame = zmq_msg_data(&c->msg);
    *len = zmq_msg_size(&c->msg);
    return whole(c, *frame, *len, err);
}

static void hang_up(struct mf_call *c)
{
    zmq_msg_close(&c->msg);
    if (c->monitor)
        zmq_close(c->monitor);
    if (c->sock)
        zmq_close(c->sock);
    if (c->ctx)
        zmq_ctx_term(c->ctx);
}

const struct mf_call_carrier mf_call_zmq = {put, get, hang_up};

static void set(struct mf_call *c, int option, int value)
{
    zmq_setsockopt(c->sock, option, &value, sizeof value);
}

static int open_socket(struct mf_call *c, const char *address, bool asks, struct mf_err *err)
{
    int64_t largest = MF_FRAME_MAX;
    c->carrier = &mf_call_zmq;
    snprintf(c->name, sizeof c->name, "%s", address);
    zmq_msg_init(&c->msg);
    if (!(c->ctx = zmq_ctx_new()) || !(c->sock = zmq_socket(c->ctx, asks ? ZMQ_DEALER : ZMQ_REP)))
        return fail(c, "open", err);
    zmq_setsockopt(c->sock, ZMQ_MAXMSGSIZE, &largest, sizeof largest);
    set(c, ZMQ_LINGER, asks ? 0 : 1000); /* ms; what is asked by one who leaves needs no answer */
    if (!asks)
        return zmq_bind(c->sock, address) < 0 ? fail(c, "bind", err) : 0;
    set(c, ZMQ_IMMEDIATE, 1); /* no question waits for a server that is not there */
    if (zmq_socket_monitor(c->sock, monitor_address, ZMQ_EVENT_DISCONNECTED) < 0 ||
        !(c->monitor = zmq_socket(c->ctx, ZMQ_PAIR)) || zmq_connect(c->monitor, monitor_address) < 0 ||
        zmq_connect(c->sock, address) < 0)
        return fail(c, "connect to", err);
    return 0;
}

static int open_call(struct mf_call **out, const char *address, bool asks, struct mf_err *err)
{
    if (strncmp(address, "ipc://", 6) && strncmp(address, "tcp://", 6))
        return mf_err_set(err, MF_EUSAGE, "'%s' is no address of an environment: tcp://127.0.0.1:PORT or ipc://PATH",
                          address);
    if (!mf_socket_is_local(address))
        return mf_err_set(
            err, MF_EUSAGE,
            "%s goes beyond this machine, and questions and answers travel in the clear: use 127.0.0.1 and "
            "an ssh tunnel",
            address);
    struct mf_call *c = mf_xcalloc(1, sizeof *c);
    mode_t before = umask(0077); /* an ipc socket is for its owner */
    int rc = open_socket(c, address, asks, err);
    umask(before);
    if (rc) {
        mf_call_free(c);
        return rc;
    }
    *out = c;
    return 0;
}

int mf_call_connect(struct mf_call **c, const char *address, struct mf_err *err)
{
    return open_call(c, address, true, err);
}

int mf_call_serve(struct mf_call **c, const char *address, struct mf_err *err)
{
    return address ? open_call(c, address, false, err) : mf_call_serve_pipes(c);
}
