/* port.h - one end of a one-way stream of frames.
 *
 * An address picks the carrier: "-" is stdin or stdout, "ipc://.." and
 * "tcp://.." are ZeroMQ PUSH/PULL, anything else is a path (file or FIFO). A
 * prefix '@' binds and '>' connects; without one the reader binds and the
 * writer connects. A frame is one complete MessagePack object; on a
 * descriptor frames follow each other, on ZeroMQ each is one message. TCP is
 * unencrypted here, so it goes to loopback addresses only.
 */
#ifndef MF_WIRE_PORT_H
#define MF_WIRE_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "base/err.h"

enum mf_dir { MF_IN, MF_OUT };
enum { MF_FRAME_MAX = 1 << 30 }; /* bytes; a longer frame is refused on both sides */

struct mf_port;

/* A FIFO, or a peer on ZeroMQ, need not be there yet: a writer waits for its reader. */
int mf_port_open(struct mf_port **port, const char *address, enum mf_dir dir, struct mf_err *err);

/* MF_CLOSED, never a signal, when nobody reads any more. */
int mf_port_sendv(struct mf_port *port, const struct iovec *part, int parts, struct mf_err *err); /* one frame */

/* 1 and a whole frame; 0 at the end of the bytes; negative on error. *data is
 * the port's until the next call. While it waits it looks at `watch` (an out
 * port, or NULL) and returns MF_CLOSED when that one's reader is gone. The
 * decoder is bounded: nesting <= 32, MF_FRAME_MAX, memory grows only with
 * bytes that came. A frame whose first byte is no msgpack map: MF_EFORMAT.
 * On ZeroMQ the bytes end when every writer that came has been gone for half a second. */
int mf_port_recv(struct mf_port *port, struct mf_port *watch, const void **data, size_t *len, struct mf_err *err);

/* The same, and *data is the caller's to free(). */
int mf_port_take(struct mf_port *port, struct mf_port *watch, void **data, size_t *len, struct mf_err *err);

bool mf_port_is_terminal(const struct mf_port *port);
const char *mf_port_name(const struct mf_port *port);        /* "<stdin>", "ipc://run/x" */
bool mf_port_reader_gone(struct mf_port *port);              /* POLLERR on the out descriptor */
int mf_port_close(struct mf_port *port, struct mf_err *err); /* flushes, and tells; the port is gone in any case */
void mf_port_drop(struct mf_port *port);                     /* after an error; NULL is fine */

#endif
