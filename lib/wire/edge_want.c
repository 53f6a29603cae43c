#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/stop.h"
#include "wire/edge_priv.h"

static const double ask_every = 1; /* seconds */

int mf_edge_dial(struct mf_edge_client **out, const char *address, const struct mf_wire_opts *opts, bool many,
                 struct mf_err *err)
{
    struct mf_edge_client *e = mf_xcalloc(1, sizeof *e);
    int rc = mf_socket_open(&e->dealer, ZMQ_DEALER, address, false, opts, MF_FRAME_MAX, err);
    if (!rc) {
        mf_edge_limits(&e->dealer, many);
        rc = mf_socket_attach(&e->dealer, err);
    }
    if (rc)
        mf_edge_close(e);
    else
        *out = e;
    return rc;
}

int mf_edge_connect(struct mf_edge_client **out, const char *address, const struct mf_wire_opts *opts,
                    struct mf_err *err)
{
    return mf_edge_dial(out, address, opts, false, err);
}

static void forget(struct mf_edge_client *e)
{
    while (e->n)
        zmq_msg_close(&e->msgs[--e->n]);
    free(e->msgs);
    free(e->parts);
    free(e->sizes);
    e->msgs = NULL;
    e->parts = NULL;
    e->sizes = NULL;
}

void mf_edge_close(struct mf_edge_client *e)
{
    if (!e)
        return;
    forget(e);
    mf_socket_close(&e->dealer, 0); /* pending requests are dropped */
    free(e);
}

static bool take_parts(struct mf_edge_client *e, int n)
{
    e->msgs = mf_xcalloc((size_t)n, sizeof *e->msgs);
    e->parts = mf_xcalloc((size_t)n, sizeof *e->parts);
    e->sizes = mf_xcalloc((size_t)n, sizeof *e->sizes);
    int more = n > 0;
    while (more && e->n < n) {
        zmq_msg_t *m = &e->msgs[e->n];
        zmq_msg_init(m);
        zmq_msg_recv(m, e->dealer.socket, 0);
        e->parts[e->n] = zmq_msg_data(m);
        e->sizes[e->n++] = zmq_msg_size(m);
        more = zmq_msg_more(m);
    }
    return e->n == n && !more;
}

/* Drops the rest of a message that does not match its header. */
static void skip_rest(struct mf_edge_client *e)
{
    int more = 0;
    size_t size = sizeof more;
    zmq_msg_t m;
    zmq_msg_init(&m);
    while (zmq_getsockopt(e->dealer.socket, ZMQ_RCVMORE, &more, &size) == 0 && more)
        zmq_msg_recv(&m, e->dealer.socket, 0);
    zmq_msg_close(&m);
}

bool mf_edge_answer(struct mf_edge_client *e, struct mf_edge_note *note, bool *came)
{
    zmq_msg_t first;
    forget(e);
    zmq_msg_init(&first);
    *came = zmq_msg_recv(&first, e->dealer.socket, ZMQ_DONTWAIT) >= 0;
    *note = (struct mf_edge_note){.say = MF_EDGE_WAIT};
    bool good = *came && mf_note_read(&mf_edge_form, note, zmq_msg_data(&first), zmq_msg_size(&first)) &&
                note->version >= MF_EDGE_NEWEST && note->version <= MF_EDGE_VERSION_MAX && note->parts >= 0 &&
                note->parts <= MF_EDGE_PARTS_MAX && (note->state == 0 || note->state == 1) &&
                zmq_msg_more(&first) == (note->parts + note->state > 0) &&
                take_parts(e, (int)(note->parts + note->state));
    if (*came)
        skip_rest(e);
    zmq_msg_close(&first);
    return good;
}

static int verdict(struct mf_edge_client *e, const struct mf_edge_note *note, struct mf_edge_policy *policy,
                   struct mf_err *err)
{
    if (note->say == MF_EDGE_GONE)
        return mf_err_set(err, MF_EIO,
                          "the learner at %s no longer has version %" PRId64 " of the policy: it keeps %" PRId64
                          " to %" PRId64,
                          e->dealer.name, note->version, note->oldest, note->newest);
    if (note->say == MF_EDGE_NO)
        return mf_err_set(err, MF_EUSAGE, "the learner at %s refused this source: %s", e->dealer.name, note->why);
    if (note->say == MF_EDGE_OVER && note->version < 0)
        return mf_err_set(err, MF_EIO, "the learner at %s has ended", e->dealer.name);
    if (note->say == MF_EDGE_OVER)
        return mf_err_set(err, MF_EIO, "the learner at %s ended before it made version %" PRId64 " of the policy",
                          e->dealer.name, note->version);
    *policy =
        (struct mf_edge_policy){.version = note->version, .n = (int)note->parts, .parts = e->parts, .sizes = e->sizes};
    if (note->state) {
        policy->state = e->parts[note->parts];
        policy->state_size = e->sizes[note->parts];
    }
    return 0;
}

static int let_in(struct mf_edge_client *e, struct mf_err *err)
{
    enum mf_socket_event event;
    int rc = 0;
    while (mf_socket_event(&e->dealer, &event))
        rc = rc ? rc : mf_socket_refused(&e->dealer, event, err);
    return rc;
}

static int still_wanted(struct mf_edge_client *e, struct mf_port *watch, double silent_s, double timeout_s,
                        struct mf_err *err)
{
    int rc = watch ? mf_port_check(watch, err) : 0;
    if (mf_stop_signal())
        return mf_err_set(err, MF_STOPPED, "stopped while waiting for a policy");
    if (rc || (rc = let_in(e, err)))
        return rc;
    if (watch && mf_port_renewed(watch))
        return 1;
    if (silent_s > timeout_s)
        return mf_err_set(err, MF_EIO,
                          "the learner at %s has been silent for %g s; is there one at the end of the pipe?",
                          e->dealer.name, timeout_s);
    return 0;
}

int mf_edge_want(struct mf_edge_client *e, const char *src, int64_t version, struct mf_port *watch, double timeout_s,
                 struct mf_edge_policy *policy, struct mf_err *err)
{
    char text[MF_NOTE_MAX];
    struct mf_edge_note want = {.seq = ++e->seq, .version = version}, note;
    want.say = version == MF_EDGE_NEWEST ? MF_EDGE_JOIN : MF_EDGE_WANT;
    if (strlen(src) >= sizeof want.src)
        return mf_err_set(err, MF_EUSAGE, "the source's name %s is longer than %d bytes", src, MF_EDGE_SRC - 1);
    strcpy(want.src, src);
    size_t size = mf_note_write(&mf_edge_form, &want, text);
    double heard = mf_now(), asked = -1e9;
    int rc;
    while (!(rc = still_wanted(e, watch, mf_now() - heard, timeout_s, err))) {
        bool came = true, due = mf_now() - asked >= ask_every;
        /* Without a connection a few requests queue up; one of them is answered. */
        if (due && zmq_send(e->dealer.socket, text, size, ZMQ_DONTWAIT) >= 0) {
            asked = mf_now();
            due = false;
        }
        zmq_pollitem_t ready = {.socket = e->dealer.socket, .events = (short)(ZMQ_POLLIN | (due ? ZMQ_POLLOUT : 0))};
        zmq_poll(&ready, 1, MF_STOP_TICK);
        while (came) {
            if (!mf_edge_answer(e, &note, &came))
                continue;
            heard = mf_now();
            if (note.seq == want.seq && note.say != MF_EDGE_WAIT)
                return verdict(e, &note, policy, err);
        }
    }
    return rc;
}
