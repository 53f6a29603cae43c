#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/stop.h"
#include "wire/rpc_priv.h"
#include "wire/port.h"
#include "wire/socket.h"
#include "wire/token.h"

static int fail(const struct mf_rpc *c, const char *what, struct mf_err *err)
{
    return mf_err_set(err, MF_EIO, "%s %s: %s", what, c->name, zmq_strerror(errno));
}

static bool hung_up(struct mf_rpc *c)
{
    enum mf_socket_event event;
    bool down = false;
    while (mf_socket_event(&c->peer, &event))
        down |= event == MF_SOCKET_DOWN;
    return down && !c->peer.binds;
}

/* Waits for the socket; if the connection ends meanwhile, the reply is lost. */
static int wait_for(struct mf_rpc *c, short events, double deadline, struct mf_err *err)
{
    for (;;) {
        zmq_pollitem_t item[2] = {{.socket = c->peer.socket, .events = events},
                                  {.socket = c->peer.monitor, .events = ZMQ_POLLIN}};
        int n = zmq_poll(item, 2, MF_STOP_TICK), rc;
        if (n < 0 && errno != EINTR)
            return fail(c, "poll", err);
        if (n > 0 && item[0].revents)
            return 0;
        if (hung_up(c))
            return mf_err_set(err, MF_CLOSED, "%s closed the connection", c->name);
        if ((rc = mf_rpc_wait_on(c, deadline, err)))
            return rc;
    }
}

static int put(struct mf_rpc *c, const void *frame, size_t len, double deadline, struct mf_err *err)
{
    const bool asks = !c->peer.binds;
    int rc = asks ? wait_for(c, ZMQ_POLLOUT, deadline, err) : 0;
    if (rc)
        return rc;
    if (asks && zmq_send(c->peer.socket, "", 0, ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0)
        return fail(c, "write to", err);
    return zmq_send(c->peer.socket, frame, len, ZMQ_DONTWAIT) < 0 ? fail(c, "write to", err) : 0;
}

static int whole(const struct mf_rpc *c, const void *frame, size_t len, struct mf_err *err)
{
    struct mf_scan s;
    struct mf_token first;
    mf_scan_start(&s);
    if (len && mf_token_read(&first, frame, len) == 1 && first.type == MF_MAP &&
        mf_scan_more(&s, frame, len, MF_FRAME_MAX) == 1 && s.at == len)
        return 0;
    return mf_err_set(err, MF_EFORMAT, "%s sent a message of %zu bytes that is not a MessagePack map", c->name, len);
}

static int get(struct mf_rpc *c, double deadline, const void **frame, size_t *len, struct mf_err *err)
{
    int rc = wait_for(c, ZMQ_POLLIN, deadline, err);
    if (rc)
        return rc;
    do { /* the last part: the others are delimiters */
        if (zmq_msg_recv(&c->msg, c->peer.socket, ZMQ_DONTWAIT) < 0)
            return fail(c, "read from", err);
    } while (zmq_msg_more(&c->msg));
    *frame = zmq_msg_data(&c->msg);
    *len = zmq_msg_size(&c->msg);
    return whole(c, *frame, *len, err);
}

static void hang_up(struct mf_rpc *c)
{
    enum { LINGER = 1000 }; /* ms; a last request needs no reply */
    zmq_msg_close(&c->msg);
    mf_socket_close(&c->peer, c->peer.binds ? LINGER : 0);
}

const struct mf_rpc_carrier mf_rpc_zmq = {put, get, hang_up};

static int open_socket(struct mf_rpc *c, const char *address, bool asks, struct mf_err *err)
{
    int rc = mf_socket_open(&c->peer, asks ? ZMQ_DEALER : ZMQ_REP, address, !asks, NULL, MF_FRAME_MAX, err);
    if (rc)
        return rc;
    if (asks)
        mf_socket_set(&c->peer, ZMQ_IMMEDIATE, 1); /* no request is queued for an absent server */
    return mf_socket_attach(&c->peer, err);
}

static int open_call(struct mf_rpc **out, const char *address, bool asks, struct mf_err *err)
{
    struct mf_address at;
    int rc = mf_address_read(&at, address, !asks, err);
    if (rc)
        return rc;
    if (!at.local)
        return mf_err_set(err, MF_EUSAGE,
                          "%s is not local, and requests are not encrypted: use 127.0.0.1 and an ssh tunnel", address);
    struct mf_rpc *c = mf_xcalloc(1, sizeof *c);
    c->carrier = &mf_rpc_zmq;
    snprintf(c->name, sizeof c->name, "%s", address);
    zmq_msg_init(&c->msg);
    if ((rc = open_socket(c, address, asks, err)))
        mf_rpc_free(c);
    else
        *out = c;
    return rc;
}

int mf_rpc_connect(struct mf_rpc **c, const char *address, struct mf_err *err)
{
    return open_call(c, address, true, err);
}

int mf_rpc_serve(struct mf_rpc **c, const char *address, struct mf_err *err)
{
    return address ? open_call(c, address, false, err) : mf_rpc_serve_pipes(c);
}
