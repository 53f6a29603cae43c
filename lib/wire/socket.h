/* socket.h - a ZeroMQ socket with its address, keys, monitor, and the file of an ipc address.
 *
 * TCP without keys is not encrypted and therefore restricted to this host. With keys every tcp:// socket uses CURVE
 * (RFC 26/ZMTP-CURVE). The end that binds proves the key `secret` and accepts clients whose public key is in the folder
 * `allowed` (RFC 27/ZAP; read again for each connection). The end that connects must have the server's public key,
 * `server`. An ipc:// socket is private to its owner (mode 600) and needs no keys.
 */
#ifndef MF_WIRE_SOCKET_H
#define MF_WIRE_SOCKET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/log.h"
#include "wire/address.h"

struct mf_wire_opts {
    const char *secret;  /* file of this end's secret key, as mf-keys writes it; NULL: none */
    const char *server;  /* server's public key file, for the end that connects */
    const char *allowed; /* folder of the clients' NAME.public, for the end that binds */
    double patience;     /* seconds until a disconnected peer counts as lost; 0: 0.5 s */
    int64_t threads;     /* of libzmq, for input and output; 0: 1 */
    double meeting;      /* seconds that a writer waits for its first reader; 0: no limit */
};

/* Events of a connection. REFUSED: the server does not allow this end's key; MISMATCH: incompatible protocols or keys;
 * CUT: disconnected during the handshake. */
enum mf_socket_event { MF_SOCKET_UP, MF_SOCKET_DOWN, MF_SOCKET_REFUSED, MF_SOCKET_MISMATCH, MF_SOCKET_CUT };

struct mf_socket {
    void *context, *socket, *monitor;
    struct mf_doorman *doorman; /* checks the keys of clients; NULL: no keys */
    char *name;                 /* the address as given, for messages */
    struct mf_address at;
    char *path; /* of a bound ipc socket, which libzmq does not remove, and its inode: another process may have replaced
                   it */
    ino_t inode;
    struct mf_rarely mismatches;
    bool binds, met; /* met: a handshake was seen */
    int cuts;        /* failed handshakes before that */
    int peers;       /* as they were counted last */
};

/* Opens a socket of a ZeroMQ type with keys (o NULL: none), a monitor, and no infinite linger; messages have at most
 * max_bytes. The caller may set further options, then attaches. It must read the monitor's events, as libzmq blocks
 * when too many are pending. MF_EUSAGE: an invalid address, or a non-local one without keys. */
int mf_socket_open(struct mf_socket *s, int type, const char *address, bool bind, const struct mf_wire_opts *o,
                   int64_t max_bytes, struct mf_err *err);
/* Binds or connects. Port 0 binds a free port and logs it. */
int mf_socket_attach(struct mf_socket *s, struct mf_err *err);
void mf_socket_set(struct mf_socket *s, int option, int value);
/* Does the limit of open files, which is raised as far as it goes when a socket binds, allow one more connection beside
 * the `peers` of this socket and those of the process's others, as they were counted last? And the reason for refusing.
 */
bool mf_socket_has_room(struct mf_socket *s, int peers);
void mf_socket_count(struct mf_socket *s, int peers); /* for the process's others: peers have left */
void mf_socket_full(char *why, size_t size);
/* The next event; false: none. */
bool mf_socket_event(struct mf_socket *s, enum mf_socket_event *event);
/* To be called after each event: MF_EUSAGE if this end connects and the event means that it will not be accepted. */
int mf_socket_refused(struct mf_socket *s, enum mf_socket_event event, struct mf_err *err);
void mf_socket_log_mismatch(
    struct mf_socket *s); /* for the end that binds: logs that an incompatible peer was refused */
/* Unsent messages get linger_ms. Safe on a zeroed socket and after a failed open. */
void mf_socket_close(struct mf_socket *s, int linger_ms);

#endif
