/* edge_priv.h - the small map that goes before the parts, and the socket's settings. */
#ifndef MF_WIRE_EDGE_PRIV_H
#define MF_WIRE_EDGE_PRIV_H

#include <stdbool.h>

#include "wire/edge.h"

enum { MF_EDGE_NOTE_MAX = 4096, MF_EDGE_PARTS_MAX = 4096 };

enum mf_edge_word { MF_EDGE_WANT, MF_EDGE_POLICY, MF_EDGE_WAIT, MF_EDGE_GONE, MF_EDGE_OVER };

struct mf_edge_note {
    enum mf_edge_word say;
    char src[MF_EDGE_SRC];
    int64_t seq; /* names a call of want: an answer to an earlier one is dropped */
    int64_t version, oldest, newest;
    int64_t parts, state;
};

/* Returns the bytes used of text. */
size_t mf_edge_note_write(const struct mf_edge_note *note, char text[MF_EDGE_NOTE_MAX]);
bool mf_edge_note_read(struct mf_edge_note *note, const void *bytes, size_t size);

int mf_edge_check_address(const char *address, struct mf_err *err);
/* A context and a socket with limits, heartbeats and no endless linger. */
int mf_edge_socket(void **context, void **socket, int type, int64_t max_bytes, const char *address, struct mf_err *err);

#endif
