#include <zmq.h>

#include "wire/edge_priv.h"

static const char *const words[] = {"want", "join", "policy", "wait", "gone", "over", "no", "watch", NULL};

#define AT(field) offsetof(struct mf_edge_note, field)
static const struct mf_note_field fields[] = {
    {"src", AT(src), MF_EDGE_SRC}, {"seq", AT(seq), 0},           {"version", AT(version), 0},
    {"oldest", AT(oldest), 0},     {"newest", AT(newest), 0},     {"parts", AT(parts), 0},
    {"state", AT(state), 0},       {"why", AT(why), MF_EDGE_WHY}, {NULL, 0, 0},
};

const struct mf_note_form mf_edge_form = {"edge", words, fields};

/* No ZMQ_IMMEDIATE: with it libzmq drops received but unread replies when their connection ends. */
void mf_edge_limits(struct mf_socket *s, bool many)
{
    mf_socket_set(s, ZMQ_SNDHWM, many ? 4096 : 8);
    mf_socket_set(s, ZMQ_RCVHWM, many ? 4096 : 8);
}
