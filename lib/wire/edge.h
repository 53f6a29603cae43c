/* edge.h - the edge back: versions of the policy, from the learner to whoever collects.
 *
 * A version is a list of opaque parts (frames). The collector asks for exactly
 * one version and waits until it exists, so what is computed never depends on
 * timing. A thread of the server answers also while the learner works; a
 * question is repeated every second and every question is answered, which
 * makes both sides' heartbeat and survives a restart of either.
 *
 * On the wire: ROUTER and DEALER; a message is a small MessagePack map,
 *   {mf: "edge", say: "want"|"join", src, seq, version}
 *   {mf: "edge", say: "policy"|"wait"|"gone"|"over"|"no", src, seq, version, oldest, newest, parts, state, why}
 * after "policy" followed by its parts, and by the source's state when `state` is 1, as further message parts.
 *
 * Who is new says "join": it gets the newest version, once the learner has admitted its name, and the state in which
 * a source of that name ended its last consumed round. So one that was killed goes on as if it had not been.
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
/* Copies the parts and returns; those who wait get them. Versions grow, not always by one. */
int mf_edge_publish(struct mf_edge_server *e, int64_t version, int n, const void *const *parts, const size_t *sizes,
                    struct mf_err *err);
/* Who of this name asks to join gets the newest version from now on, or waits. Admit a source before the round that
 * needs it: then the version it gets stays the newest until its round is in. */
int mf_edge_admit(struct mf_edge_server *e, const char *src, bool admitted, struct mf_err *err);
/* Those who have asked by this name so far get no version more, but why. One who comes anew may be admitted. */
int mf_edge_refuse(struct mf_edge_server *e, const char *src, const char *why, struct mf_err *err);
/* What a source of this name finds when it joins, from the version on that is published next: copied. */
int mf_edge_give_state(struct mf_edge_server *e, const char *src, const void *bytes, size_t size, struct mf_err *err);
/* Answers what was asked ("over" to those who still wait), closes. NULL is fine. */
void mf_edge_finish(struct mf_edge_server *e);
/* Closes without a word: those who wait go on asking, and whoever serves at this address next answers them. */
void mf_edge_drop(struct mf_edge_server *e);

/* ---- the collector's side ---- */

struct mf_edge_client;

struct mf_edge_policy { /* the client's, until its next want */
    int64_t version;
    int n;
    const void **parts;
    size_t *sizes;
    const void *state; /* of who joins; NULL: none of this name */
    size_t state_size;
};

/* The server need not be there yet. */
int mf_edge_connect(struct mf_edge_client **e, const char *address, const struct mf_wire_opts *opts,
                    struct mf_err *err);
/* Waits for exactly this version, or, MF_EDGE_NEWEST, to join. 1: the reader of `watch` (NULL: none) is a new one
 * (mf_port_renewed): send it what it lacks, and ask again. MF_EIO when the server was silent for timeout_s, has ended,
 * or keeps this version no more; MF_EUSAGE when it refuses us; MF_CLOSED or MF_EUSAGE when that reader is gone or
 * refuses us (mf_port_check), MF_STOPPED on a signal, all within 100 ms. */
enum { MF_EDGE_NEWEST = -1 };
int mf_edge_want(struct mf_edge_client *e, const char *src, int64_t version, struct mf_port *watch, double timeout_s,
                 struct mf_edge_policy *policy, struct mf_err *err);
void mf_edge_close(struct mf_edge_client *e); /* NULL is fine */

#endif
