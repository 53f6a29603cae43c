/* rpc.h - requests and replies: one frame each, one pair at a time.
 *
 * A client starts the server as a child process and uses its stdin and stdout, or connects to a ZeroMQ address (DEALER,
 * with REP's empty delimiter). A server uses its own stdin and stdout, or binds an address (REP). A frame is one
 * MessagePack map, bounded as in port.h; its content is up to the callers.
 */
#ifndef MF_WIRE_RPC_H
#define MF_WIRE_RPC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct mf_rpc;

/* Starts `sh -c command` in its own process group, so that a terminal's Ctrl-C reaches only this process. The child
 * ends with this process and shares its stderr. */
int mf_rpc_spawn(struct mf_rpc **c, const char *command, struct mf_err *err);
int mf_rpc_connect(struct mf_rpc **c, const char *address, struct mf_err *err); /* the server may start later */
int mf_rpc_serve(struct mf_rpc **c, const char *address, struct mf_err *err);   /* NULL: stdin and stdout */

/* Sends a frame. MF_CLOSED: the other side is gone; MF_EIO: it accepted nothing for timeout_s seconds (inf: no
 * limit). */
int mf_rpc_put(struct mf_rpc *c, const void *frame, size_t len, double timeout_s, struct mf_err *err);
/* Receives a frame; *frame is valid until the next get. Errors as put; MF_EFORMAT: the bytes are not a frame. Both
 * return MF_STOPPED within 100 ms of a SIGTERM, and without a time limit also of a SIGINT. */
int mf_rpc_get(struct mf_rpc *c, double timeout_s, const void **frame, size_t *len, struct mf_err *err);

bool mf_rpc_is_socket(const struct mf_rpc *c);
const char *mf_rpc_name(const struct mf_rpc *c); /* "process 4711", "tcp://127.0.0.1:5555", "<stdin>" */
/* Closes the connection. A child that is still running after 0.5 s is killed with its process group. NULL is fine. */
void mf_rpc_free(struct mf_rpc *c);

#endif
