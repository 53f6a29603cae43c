/* edge_clients.h - the clients of a server of the policy: who asked for what, and how they are answered.
 *
 * A client is a source on a connection: a relay's connection carries several. Inside lib/wire only.
 */
#ifndef MF_WIRE_EDGE_CLIENTS_H
#define MF_WIRE_EDGE_CLIENTS_H

#include <zmq.h>

#include "wire/edge_priv.h"

struct mf_edge_asker {
    unsigned char id[255]; /* of its connection, libzmq's */
    size_t id_size;
    bool first; /* of its connection */
    bool gone;  /* the connection is down: this place is free */
    char src[MF_EDGE_SRC];
    int say; /* MF_EDGE_WANT, JOIN or WATCH */
    int64_t seq, version;
    bool waits;   /* no final reply to seq yet */
    bool refused; /* a server's mark */
    /* a relay's: when seq was last forwarded, by what number (0: not yet), and for the others of its version, too */
    double asked;
    int64_t ahead;
    bool fetches;
};

struct mf_edge_clients {
    struct mf_edge_asker *c;
    int n, room;
    struct mf_rarely full;
};

/* One message: true, and whose question it was (NULL: of another form, or refused for want of files). False: none. */
bool mf_edge_question(struct mf_edge_clients *q, struct mf_socket *router, struct mf_edge_asker **c);
/* Sends the note with its parts, which are shared, never copied. A client whose queue is full has to repeat its
 * question; of one that is gone the place is free. True: sent. */
bool mf_edge_reply(struct mf_edge_clients *q, struct mf_socket *router, const struct mf_edge_asker *c,
                   const struct mf_edge_note *note, zmq_msg_t *parts, zmq_msg_t *state);

#endif
