/* rpc.h - questions and answers: a frame there, a frame back, one pair at a time.
 *
 * The side that asks starts the server as its child and talks over the
 * child's stdin and stdout, or connects to a ZeroMQ address (DEALER, with
 * REP's empty delimiter). The side that answers serves its own stdin and
 * stdout, or binds an address (REP). A frame is one MessagePack map, bounded
 * as in port.h; what frames mean is the callers'.
 */
#ifndef MF_WIRE_RPC_H
#define MF_WIRE_RPC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct mf_rpc;

/* `sh -c command` in a process group of its own, so that a terminal's Ctrl-C reaches us alone; it dies with us. Its
 * stderr is ours. */
int mf_rpc_spawn(struct mf_rpc **c, const char *command, struct mf_err *err);
int mf_rpc_connect(struct mf_rpc **c, const char *address, struct mf_err *err); /* nobody need be there yet */
int mf_rpc_serve(struct mf_rpc **c, const char *address, struct mf_err *err);   /* NULL: stdin and stdout */

/* Send a frame. MF_CLOSED: the other side is gone; MF_EIO: it took nothing for timeout_s seconds (inf: wait). */
int mf_rpc_put(struct mf_rpc *c, const void *frame, size_t len, double timeout_s, struct mf_err *err);
/* The next frame; *frame is the call's until the next get. As put; MF_EFORMAT: what came is no frame. Both return
 * MF_STOPPED within 100 ms of a SIGTERM, and where they wait without limit also of a SIGINT. */
int mf_rpc_get(struct mf_rpc *c, double timeout_s, const void **frame, size_t *len, struct mf_err *err);

bool mf_rpc_is_socket(const struct mf_rpc *c);
const char *mf_rpc_name(const struct mf_rpc *c); /* "process 4711", "tcp://127.0.0.1:5555", "<stdin>" */
/* Hang up. A child that has not ended half a second later is killed, with its group. NULL is fine. */
void mf_rpc_free(struct mf_rpc *c);

#endif
