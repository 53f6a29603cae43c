/* edge_priv.h - the header map that precedes the parts of a message. */
#ifndef MF_WIRE_EDGE_PRIV_H
#define MF_WIRE_EDGE_PRIV_H

#include <zmq.h>

#include "wire/edge.h"
#include "wire/note.h"
#include "wire/socket.h"

enum { MF_EDGE_PARTS_MAX = 4096, MF_EDGE_WHY = 256 };

#define MF_EDGE_VERSION_MAX ((int64_t)1 << 53)

enum mf_edge_word {
    MF_EDGE_WANT,
    MF_EDGE_JOIN,
    MF_EDGE_POLICY,
    MF_EDGE_WAIT,
    MF_EDGE_GONE,
    MF_EDGE_OVER,
    MF_EDGE_NO,
    MF_EDGE_WATCH
};

struct mf_edge_note {
    int say; /* enum mf_edge_word */
    char src[MF_EDGE_SRC];
    int64_t seq; /* number of the request; a reply to an earlier one is dropped */
    int64_t version, oldest, newest;
    int64_t parts, state;
    char why[MF_EDGE_WHY];
};

extern const struct mf_note_form mf_edge_form;

/* Sets the queue limits of an end. A queue to a relay carries the answers to many. */
void mf_edge_limits(struct mf_socket *s, bool many);

struct mf_edge_client {
    struct mf_socket dealer;
    int64_t seq;
    /* the last message */
    int n;
    zmq_msg_t *msgs; /* (n) the parts after the note */
    const void **parts;
    size_t *sizes;
};

/* mf_edge_connect; many: for a relay. */
int mf_edge_dial(struct mf_edge_client **e, const char *address, const struct mf_wire_opts *opts, bool many,
                 struct mf_err *err);
/* One message: its note, and its parts in e. False: none (`came`), or not a reply. */
bool mf_edge_answer(struct mf_edge_client *e, struct mf_edge_note *note, bool *came);

#endif
