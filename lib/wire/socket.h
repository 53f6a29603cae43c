/* socket.h - one ZeroMQ socket: its address, its keys, its monitor, and the file that an ipc address leaves.
 *
 * What goes over TCP is in the clear unless keys are given, so without them it stays on this machine. With keys every
 * tcp:// socket speaks CURVE (RFC 26/ZMTP-CURVE): who binds shows the key that belongs to `secret` and lets in whose
 * public key lies in `allowed` (RFC 27/ZAP, read anew for each that knocks); who connects must know it as `server`.
 * An ipc:// socket belongs to its owner (mode 600) and needs none.
 */
#ifndef MF_WIRE_SOCKET_H
#define MF_WIRE_SOCKET_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/log.h"
#include "wire/address.h"

struct mf_wire_opts {
    const char *secret;  /* file of our secret key, as mf-keys writes it; NULL: none */
    const char *server;  /* file of the public key of who binds; for who connects */
    const char *allowed; /* folder of NAME.public, for who binds */
    double patience;     /* seconds that a peer may be gone before it is gone for good; 0: half a second */
    double meeting;      /* seconds that a writer waits for its first reader; 0: as long as it takes */
};

/* What became of a connection. REFUSED: our key is not known there; MISMATCH: the two speak differently, or have
 * another key in mind; CUT: it ended before they had spoken. */
enum mf_socket_event { MF_SOCKET_UP, MF_SOCKET_DOWN, MF_SOCKET_REFUSED, MF_SOCKET_MISMATCH, MF_SOCKET_CUT };

struct mf_socket {
    void *context, *socket, *monitor;
    struct mf_doorman *doorman; /* who looks at the keys of those who come; NULL: nobody has to */
    char *name;                 /* the address as it was given, for sentences */
    struct mf_address at;
    char *path; /* of a bound ipc socket, which libzmq leaves behind, and its inode: it may be another's
                 * by then */
    ino_t inode;
    struct mf_rarely mismatches;
    bool binds, met; /* met: a handshake was seen */
    int cuts;        /* handshakes that broke off before */
};

/* A socket of a ZeroMQ type with its keys (o NULL: none), a monitor and no endless linger; messages of max_bytes. The
 * caller sets what else it wants, then attaches; and it reads the monitor's events, or libzmq comes to a halt when
 * there are many. MF_EUSAGE for what is no address, and for one beyond this machine without keys. */
int mf_socket_open(struct mf_socket *s, int type, const char *address, bool bind, const struct mf_wire_opts *o,
                   int64_t max_bytes, struct mf_err *err);
/* Bind or connect. Port 0 is a free one, which the log names. */
int mf_socket_attach(struct mf_socket *s, struct mf_err *err);
void mf_socket_set(struct mf_socket *s, int option, int value);
/* The next thing that happened; false: none. */
bool mf_socket_event(struct mf_socket *s, enum mf_socket_event *event);
/* Asked after each event: MF_EUSAGE where we connect and it means that we will not be let in. */
int mf_socket_refused(struct mf_socket *s, enum mf_socket_event event, struct mf_err *err);
void mf_socket_log_mismatch(struct mf_socket *s); /* of who binds: somebody was refused who speaks otherwise */
/* What is still to be sent gets linger_ms. Safe on a zeroed one, and after a failed open. */
void mf_socket_close(struct mf_socket *s, int linger_ms);

#endif
