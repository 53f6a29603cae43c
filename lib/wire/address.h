/* address.h - ZeroMQ addresses, parsed and checked before libzmq sees them.
 *
 *   ipc://PATH
 *   tcp://HOST:PORT
 *     HOST  a name, an IPv4 address, an IPv6 address in brackets; "localhost" is 127.0.0.1; when binding also *,
 *           every interface by IPv4 and IPv6
 *     PORT  1 to 65535; when binding also 0, a free one
 */
#ifndef MF_WIRE_ADDRESS_H
#define MF_WIRE_ADDRESS_H

#include <stdbool.h>

#include "base/err.h"

struct mf_address {
    char endpoint[1024]; /* as libzmq takes it */
    bool tcp, ipv6;      /* ipv6: the socket needs ZMQ_IPV6 */
    bool local;          /* not reachable from other hosts: ipc, or tcp on the loopback interface */
    int port;            /* of tcp */
};

bool mf_address_is_socket(const char *text); /* does it begin with ipc:// or tcp://? */
/* MF_EUSAGE: not a valid address, or one that cannot be bound or connected to. */
int mf_address_read(struct mf_address *a, const char *text, bool bind, struct mf_err *err);

#endif
