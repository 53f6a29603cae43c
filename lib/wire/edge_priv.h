/* edge_priv.h - the header map that precedes the parts of a message. */
#ifndef MF_WIRE_EDGE_PRIV_H
#define MF_WIRE_EDGE_PRIV_H

#include "wire/edge.h"
#include "wire/note.h"
#include "wire/socket.h"

enum { MF_EDGE_PARTS_MAX = 4096, MF_EDGE_WHY = 256 };

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

/* Sets the queue limits that both ends use. */
void mf_edge_limits(struct mf_socket *s);

#endif
