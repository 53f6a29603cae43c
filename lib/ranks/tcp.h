/* tcp.h - the transport between ranks over TCP, for a start without MPI: each message is its size and its bytes, on a
 * connection between each two ranks. Whoever reaches rank 0's port may take part: the network is trusted.
 */
#ifndef MF_RANKS_TCP_H
#define MF_RANKS_TCP_H

#include "ranks/transport.h"

extern const struct mf_transport mf_tcp; /* but for `open`, which is mf_tcp_open */

/* Rank me of n, which rank 0 waits for at `address` (HOST:PORT, its own) for `patience` seconds. MF_EUSAGE: the address
 * is none. MF_STOPPED: a signal came. */
int mf_tcp_open(void **self, const char *address, int n, int me, double patience, struct mf_err *err);

/* The same, on connected sockets by rank, of which it takes possession; fd[me] is -1. */
void *mf_tcp_on(const int *fd, int n, int me);

#endif
