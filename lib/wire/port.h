/* clang-format off */
/* port.h - one end of a one-way stream of frames; a socket's reader may have many writers.
 *
 * An address picks the carrier: "-" is stdin or stdout, "ipc://.." and
 * "tcp://.." are ZeroMQ, anything else is a path (file or FIFO). A prefix '@'
 * binds and '>' connects; without one the reader binds and the writer
 * connects. A frame is one complete MessagePack object; on a descriptor frames
 * follow each other. TCP beyond loopback goes with keys alone: wire/socket.h.
 *
 * On ZeroMQ a writer is a DEALER and the reader a ROUTER, which serves its
 * writers in turn. A frame travels as two parts, its number since the hello
 * (8 bytes, little-endian, from 0) and the frame; all else is an empty part
 * and a small map:
 *
 *   from    message                                meaning
 *   writer  {mf: "port", say: "hello", v: 1}       first, and again after a lost connection: numbers begin anew
 *   writer  {mf: "port", say: "bye"}               everything was sent
 *   reader  {mf: "port", say: "more", taken, window}
 *                                                  bytes that the reader has used; a writer may be `window` bytes
 *                                                  ahead, or one frame. Sent every second too, as a sign of life
 *   reader  {mf: "port", say: "done"}              after bye: everything was taken
 *   reader  {mf: "port", say: "again"}             what was sent is lost behind the reader: hello again, and a new head
 *   reader  {mf: "port", say: "no", why}           the reader refuses this writer, and why
 *
 * Windows of all writers together are 128 MiB, or 1 MiB each if they are more than 128, so a reader's memory is bounded
 * whatever they do.
 */
/* clang-format on */
#ifndef MF_WIRE_PORT_H
#define MF_WIRE_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "base/err.h"
#include "wire/socket.h"

enum mf_dir { MF_IN, MF_OUT };
enum { MF_FRAME_MAX = 1 << 30 }; /* bytes; a longer frame is refused on both sides */

struct mf_port;

/* A FIFO or a ZeroMQ peer may come later: a writer waits for its reader. opts NULL: no keys, and 0.5 s of patience with
 * a lost peer. */
int mf_port_open(struct mf_port **port, const char *address, enum mf_dir dir, const struct mf_wire_opts *opts,
                 struct mf_err *err);
bool mf_port_is_socket(const struct mf_port *port);

/* MF_CLOSED, never a signal, if the reader is gone; MF_EUSAGE, with the reader's reason, if it rejected this writer. */
int mf_port_sendv(struct mf_port *port, const struct iovec *part, int parts, struct mf_err *err); /* one frame */
int mf_port_check(struct mf_port *port, struct mf_err *err); /* the same check without sending */
/* Declares that this writer can resend frames that its reader did not receive. For any other writer a lost connection
 * means lost frames, MF_CLOSED. It waits wire.patience for another reader, or `patience` seconds if they are more.
 * After a lost connection, frames are discarded until mf_port_renewed returns true, once per new connection: then start
 * again with a head. */
void mf_port_resends(struct mf_port *port, double patience);
bool mf_port_renewed(struct mf_port *port);

/* 1 and a whole frame; 0 at the end of the bytes; negative on error. *data is the port's until the next call. While it
 * waits it looks at `watch` (an out port, or NULL) and returns MF_CLOSED when that one's reader is gone. The decoder is
 * bounded: nesting <= 32, MF_FRAME_MAX, memory grows only with bytes that came. A frame whose first byte is no msgpack
 * map: MF_EFORMAT. On ZeroMQ also MF_PORT_LEFT, if a writer said bye or was gone for longer than patience, and
 * MF_PORT_RENEWED, if `watch` is renewed (mf_port_renewed), and never 0: the caller knows its writers and when the
 * stream is complete. */
enum { MF_PORT_LEFT = 2, MF_PORT_LATE = 3, MF_PORT_RENEWED = 4 };
int mf_port_recv(struct mf_port *port, struct mf_port *watch, const void **data, size_t *len, struct mf_err *err);
/* From this time on (mf_now) recv returns MF_PORT_LATE instead of waiting; 0: no limit. */
void mf_port_alarm(struct mf_port *port, double at);
/* The writer of the last frame, error or MF_PORT_LEFT: a number from 0, reused after the writer has left. */
int mf_port_from(const struct mf_port *port);
bool mf_port_is_here(struct mf_port *port, int from); /* its connection is up */
void mf_port_refuse(struct mf_port *port, int from,
                    const char *why); /* sends the reason; the port ignores it from now on */
/* Asks the writers of a socket to send their streams again, each from its head. */
void mf_port_again(struct mf_port *port);
int mf_port_writers(const struct mf_port *port); /* that are connected to a socket */

/* The same, and *data is the caller's to free(). */
int mf_port_take(struct mf_port *port, struct mf_port *watch, void **data, size_t *len, struct mf_err *err);

double mf_port_waited(const struct mf_port *port); /* seconds spent waiting for the other side, for bytes or for room */
bool mf_port_is_terminal(const struct mf_port *port);
bool mf_port_is_file(const struct mf_port *port); /* a regular file: a saved stream, not a running program */
bool mf_port_is_pipe(const struct mf_port *port);
bool mf_port_has_room(const struct mf_port *port);    /* a pipe with room for a small frame */
const char *mf_port_name(const struct mf_port *port); /* "<stdin>", "ipc://run/x" */
/* A writer waits until everything is received, and reports failure; a reader releases its writers. Frees the port in
 * any case. */
int mf_port_close(struct mf_port *port, struct mf_err *err);
void mf_port_drop(struct mf_port *port); /* after an error; NULL is fine */

#endif
