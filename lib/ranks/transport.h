/* transport.h - what carries bytes between ranks: a table, in a plugin (base/plugin.h) for a transport that needs a
 * library, as lib/mpi is; tcp.h needs none.
 */
#ifndef MF_RANKS_TRANSPORT_H
#define MF_RANKS_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define MF_TRANSPORT_MOST ((size_t)1 << 30) /* bytes of one message */

/* One caller. A function that takes *err may fail with MF_EIO; then all that is left is `close`. */
struct mf_transport {
    int (*open)(void **self, int *n, int *me, struct mf_err *err); /* rank `me` of n */
    /* Begin a message of at most MF_TRANSPORT_MOST bytes, which stay until it has ended. Those from one rank to another
     * arrive in order, in messages of the size in which they were sent. Messages are numbered 0, 1, .. in the order of
     * these calls, beginning anew when all have ended. */
    int (*send)(void *self, int to, const void *bytes, size_t n, struct mf_err *err);
    int (*receive)(void *self, int from, void *bytes, size_t n, struct mf_err *err);
    /* Sets ended[i] of messages that have; returns how many have not. Never waits. */
    int (*poll)(void *self, bool *ended, struct mf_err *err);
    /* status 0: all ranks close; one that waits longer than patience (s) for another ends with 1. Else it ends all
     * ranks, with this exit status, or the messages of the others fail with an empty error: this one has logged its
     * own. */
    void (*close)(void *self, int status, double patience);
};

/* Of all that a program and a transport hand each other. */
#define MF_TRANSPORT_SIZES                                                                                             \
    {                                                                                                                  \
        sizeof(struct mf_transport), sizeof(struct mf_err)                                                             \
    }

#endif
