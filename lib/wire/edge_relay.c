/* A relay: the last versions, and a forwarder of all else. What collectors hear is the learner's answer to their own
 * questions, so a relay adds no rules. They repeat a question until it is answered; nothing is lost with a relay. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/stop.h"
#include "wire/edge_clients.h"

enum { KEPT = 4 };
static const char own_name[] = "/relay";  /* of its own question; no source has such a name (base/name.h) */
static const double repeats_within = 2.5; /* s: a client that waits asks every second, or is gone */

struct version {
    int64_t number;
    int n;
    zmq_msg_t *parts; /* NULL: none */
};

struct mf_edge_relay {
    struct mf_socket router;
    struct mf_edge_clients clients;
    struct mf_edge_client *learner;
    bool here, met, over; /* the learner's connection is up; was; it has said that it ends */
    double gone_since;
    int64_t seq, epoch; /* of the last question; of the last one before this connection */
    struct version kept[KEPT];
    int turn;
};

static void drop(struct version *v)
{
    for (int i = 0; v->parts && i < v->n; i++)
        zmq_msg_close(&v->parts[i]);
    free(v->parts);
    *v = (struct version){.n = 0};
}

static struct version *find(struct mf_edge_relay *e, int64_t number)
{
    for (int i = 0; i < KEPT; i++)
        if (e->kept[i].parts && e->kept[i].number == number)
            return &e->kept[i];
    return NULL;
}

static void keep(struct mf_edge_relay *e, const struct mf_edge_note *note)
{
    if (find(e, note->version))
        return;
    struct version *v = &e->kept[e->turn++ % KEPT];
    drop(v);
    *v = (struct version){note->version, (int)note->parts, mf_xcalloc((size_t)note->parts + 1, sizeof *v->parts)};
    for (int i = 0; i < v->n; i++) {
        zmq_msg_init(&v->parts[i]);
        zmq_msg_copy(&v->parts[i], &e->learner->msgs[i]); /* shares the bytes */
    }
}

static void hand_out(struct mf_edge_relay *e, struct mf_edge_asker *c, const struct version *v)
{
    struct mf_edge_note note = {
        .say = MF_EDGE_POLICY, .seq = c->seq, .version = v->number, .newest = v->number, .parts = v->n};
    memcpy(note.src, c->src, sizeof note.src);
    if (mf_edge_reply(&e->clients, &e->router, c, &note, v->parts, NULL))
        c->waits = false;
}

static bool is_fetched(const struct mf_edge_relay *e, int64_t version)
{
    for (const struct mf_edge_asker *c = e->clients.c; c < e->clients.c + e->clients.n; c++)
        if (c->fetches && c->waits && !c->gone && c->version == version && mf_now() - c->asked < repeats_within)
            return true;
    return false;
}

static void ask(struct mf_edge_relay *e, int say, const char *src, int64_t seq, int64_t version)
{
    char text[MF_NOTE_MAX];
    struct mf_edge_note note = {.say = say, .seq = seq, .version = version};
    snprintf(note.src, sizeof note.src, "%s", src);
    zmq_send(e->learner->dealer.socket, text, mf_note_write(&mf_edge_form, &note, text), ZMQ_DONTWAIT);
}

static void pass_on(struct mf_edge_relay *e, struct mf_edge_asker *c)
{
    const struct version *v = c->say == MF_EDGE_WANT ? find(e, c->version) : NULL;
    if (c->waits && v) {
        hand_out(e, c, v);
        return;
    }
    if (!e->here) /* it is asked when it comes */
        return;
    if (c->say == MF_EDGE_WANT && c->waits && !c->fetches)
        c->fetches = !is_fetched(e, c->version);
    if (!c->ahead)
        c->ahead = ++e->seq;
    const bool watches = c->say == MF_EDGE_WANT && !c->fetches;
    c->asked = mf_now();
    ask(e, watches ? MF_EDGE_WATCH : c->say, c->src, c->ahead, c->version);
}

static void pass_back(struct mf_edge_relay *e, const struct mf_edge_note *answer)
{
    const bool policy = answer->say == MF_EDGE_POLICY;
    zmq_msg_t *parts = e->learner->msgs, *state = answer->state ? &parts[answer->parts] : NULL;
    e->over |= answer->say == MF_EDGE_OVER;
    if (policy)
        keep(e, answer);
    for (struct mf_edge_asker *c = e->clients.c; c < e->clients.c + e->clients.n; c++) {
        struct mf_edge_note note = *answer;
        if (c->gone || !c->waits)
            continue;
        if (c->ahead == answer->seq) {
            note.seq = c->seq;
            if (mf_edge_reply(&e->clients, &e->router, c, &note, parts, state) && note.say != MF_EDGE_WAIT)
                c->waits = false;
        } else if (policy && c->say == MF_EDGE_WANT && c->version == answer->version) {
            hand_out(e, c, find(e, answer->version));
        }
    }
}

/* Another learner may come, with other versions of the same numbers: nothing of this connection is kept. What has
 * arrived is read first, and all is asked again under new numbers. */
static void lost(struct mf_edge_relay *e)
{
    struct mf_edge_note note;
    for (bool came = true; came;)
        (void)mf_edge_answer(e->learner, &note, &came);
    for (int i = 0; i < KEPT; i++)
        drop(&e->kept[i]);
    for (struct mf_edge_asker *c = e->clients.c; c < e->clients.c + e->clients.n; c++)
        c->ahead = 0;
    e->epoch = e->seq;
    e->here = false;
    e->gone_since = mf_now();
}

static int look_at_learner(struct mf_edge_relay *e, struct mf_err *err)
{
    enum mf_socket_event event;
    int rc = 0;
    while (rc == 0 && mf_socket_event(&e->learner->dealer, &event)) {
        if (event == MF_SOCKET_UP) {
            e->here = e->met = true;
            e->over = false;
            ask(e, MF_EDGE_WATCH, own_name, ++e->seq, MF_EDGE_VERSION_MAX); /* to hear of the end */
            for (struct mf_edge_asker *c = e->clients.c; c < e->clients.c + e->clients.n; c++)
                if (c->waits && !c->gone)
                    pass_on(e, c);
        } else if (event == MF_SOCKET_DOWN) {
            lost(e);
        }
        rc = mf_socket_refused(&e->learner->dealer, event, err);
    }
    return rc;
}

static void look_at_clients(struct mf_edge_relay *e)
{
    enum mf_socket_event event;
    struct mf_edge_asker *c;
    while (mf_socket_event(&e->router, &event))
        if (event == MF_SOCKET_MISMATCH)
            mf_socket_log_mismatch(&e->router);
    while (mf_edge_question(&e->clients, &e->router, &c))
        if (c)
            pass_on(e, c);
}

int mf_edge_relay_work(struct mf_edge_relay *e, double timeout_s, struct mf_err *err)
{
    struct mf_edge_note note;
    zmq_pollitem_t ready[] = {{.socket = e->router.socket, .events = ZMQ_POLLIN},
                              {.socket = e->router.monitor, .events = ZMQ_POLLIN},
                              {.socket = e->learner->dealer.socket, .events = ZMQ_POLLIN},
                              {.socket = e->learner->dealer.monitor, .events = ZMQ_POLLIN}};
    zmq_poll(ready, 4, MF_STOP_TICK);
    for (bool came = true; came;)
        if (mf_edge_answer(e->learner, &note, &came) && note.seq > e->epoch)
            pass_back(e, &note);
    int rc = look_at_learner(e, err);
    if (rc)
        return rc;
    look_at_clients(e);
    if (e->here || (!e->over && mf_now() - e->gone_since < timeout_s))
        return 1;
    if (e->over)
        return 0;
    return mf_err_set(err, MF_EIO,
                      e->met
                          ? "the learner at %s is gone for %g s (collect.policy_timeout), and did not say that it ends"
                          : "no learner at %s for %g s (collect.policy_timeout): is it running?",
                      e->learner->dealer.name, timeout_s);
}

int mf_edge_relay_open(struct mf_edge_relay **out, const char *at, const char *from, const struct mf_wire_opts *opts,
                       struct mf_err *err)
{
    struct mf_edge_relay *e = mf_xcalloc(1, sizeof *e);
    e->gone_since = mf_now();
    int rc = mf_socket_open(&e->router, ZMQ_ROUTER, at, true, opts, MF_NOTE_MAX, err);
    if (rc == 0) {
        mf_edge_limits(&e->router, true);
        mf_socket_set(&e->router, ZMQ_ROUTER_MANDATORY, 1);
        rc = mf_socket_attach(&e->router, err);
    }
    if (rc == 0 && (rc = mf_edge_dial(&e->learner, from, opts, true, err)) == 0)
        *out = e;
    else
        mf_edge_relay_close(e);
    return rc;
}

void mf_edge_relay_close(struct mf_edge_relay *e)
{
    if (!e)
        return;
    for (int i = 0; i < KEPT; i++)
        drop(&e->kept[i]);
    mf_edge_close(e->learner);
    mf_socket_close(&e->router, 1000);
    free(e->clients.c);
    free(e);
}
