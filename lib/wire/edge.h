/* edge.h - the edge back: versions of the policy, from the learner to the collectors.
 *
 * A version is a list of opaque parts (frames). The collector requests exactly one version and waits until it exists,
 * so results never depend on timing. A thread of the server also answers while the learner works. Requests are repeated
 * every second and each is answered: this is the heartbeat of both sides, and survives a restart of either.
 *
 * On the wire: ROUTER and DEALER; a message is a small MessagePack map,
 *   {mf: "edge", say: "want"|"join"|"watch", src, seq, version}
 *   {mf: "edge", say: "policy"|"wait"|"gone"|"over"|"no", src, seq, version, oldest, newest, parts, state, why}
 * after "policy" followed by its parts, and by the source's state when `state` is 1, as further message parts.
 *
 * "watch" asks whether a version exists, is gone or refused, and is never answered with the policy. A relay sends it
 * for all but one of the sources that want a version, so the learner sends each version once to each relay.
 *
 * A new collector sends "join". Once the learner has admitted its name, it gets the newest version, and the state in
 * which a source of that name ended its last consumed round. So a killed collector continues as if it had not been
 * killed.
 */
#ifndef MF_WIRE_EDGE_H
#define MF_WIRE_EDGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/port.h"
#include "wire/socket.h"

enum { MF_EDGE_SRC = 64 }; /* bytes of a source's name with its NUL */

/* ---- the learner's side: may be used from one thread ---- */

struct mf_edge_server;

/* Binds ipc://PATH (a socket left there is replaced) or tcp:// (wire/socket.h: beyond this host with keys alone), and
 * keeps the last `keep` versions. */
int mf_edge_serve(struct mf_edge_server **e, const char *address, const struct mf_wire_opts *opts, int keep,
                  struct mf_err *err);
/* Copies the parts and returns; waiting collectors get them. Versions increase, not always by one. */
int mf_edge_publish(struct mf_edge_server *e, int64_t version, int n, const void *const *parts, const size_t *sizes,
                    struct mf_err *err);
/* From now on a source of this name that joins gets the newest version (admitted), or waits. Admit a source before the
 * round that needs it: then its version stays the newest until its round has arrived. */
int mf_edge_admit(struct mf_edge_server *e, const char *src, bool admitted, struct mf_err *err);
/* Collectors that have connected under this name get the reason instead of further versions. A new one may be
 * admitted. */
int mf_edge_refuse(struct mf_edge_server *e, const char *src, const char *why, struct mf_err *err);
/* Sets the state that a source of this name gets when it joins, from the next published version on. Copied. */
int mf_edge_give_state(struct mf_edge_server *e, const char *src, const void *bytes, size_t size, struct mf_err *err);
/* Answers pending requests ("over" to waiting collectors) and closes. NULL is fine. */
void mf_edge_finish(struct mf_edge_server *e);
/* Closes without an answer: waiting collectors repeat their requests, and the next server at this address answers
 * them. */
void mf_edge_drop(struct mf_edge_server *e);

/* ---- the collector's side ---- */

struct mf_edge_client;

struct mf_edge_policy { /* the client's, until its next want */
    int64_t version;
    int n;
    const void **parts;
    size_t *sizes;
    const void *state; /* for a join; NULL: none under this name */
    size_t state_size;
};

/* The server need not be there yet. */
int mf_edge_connect(struct mf_edge_client **e, const char *address, const struct mf_wire_opts *opts,
                    struct mf_err *err);
/* Waits for exactly this version, or, with MF_EDGE_NEWEST, joins. Returns 1 if `watch` (NULL: none) has a new reader
 * (mf_port_renewed): resend the frames that it lacks and call again. MF_EIO: the server was silent for timeout_s, has
 * ended, or no longer keeps this version; MF_EUSAGE: it rejected this source; MF_CLOSED or MF_EUSAGE: the reader of
 * `watch` is gone or rejected this writer (mf_port_check); MF_STOPPED: a signal. All are noticed within 100 ms. */
enum { MF_EDGE_NEWEST = -1 };
int mf_edge_want(struct mf_edge_client *e, const char *src, int64_t version, struct mf_port *watch, double timeout_s,
                 struct mf_edge_policy *policy, struct mf_err *err);
void mf_edge_close(struct mf_edge_client *e); /* NULL is fine */

/* ---- between the two: one connection to the learner for many collectors ---- */

struct mf_edge_relay;

/* Serves at `at` what the learner serves at `from`, which need not be there yet; opts for both. */
int mf_edge_relay_open(struct mf_edge_relay **e, const char *at, const char *from, const struct mf_wire_opts *opts,
                       struct mf_err *err);
/* Relays for a moment. 1: call again; 0: the learner has ended, and said so; MF_EIO: none came within timeout_s, or it
 * was gone for so long. */
int mf_edge_relay_work(struct mf_edge_relay *e, double timeout_s, struct mf_err *err);
void mf_edge_relay_close(struct mf_edge_relay *e); /* NULL is fine */

#endif
