/* rpc_priv.h - shared by rpc.c and its two carriers. */
#ifndef MF_WIRE_RPC_PRIV_H
#define MF_WIRE_RPC_PRIV_H

#include <stdint.h>
#include <sys/types.h>
#include <zmq.h>

#include "wire/rpc.h"
#include "wire/socket.h"

struct mf_rpc {
    const struct mf_rpc_carrier *carrier;
    char name[128];
    /* descriptors */
    pid_t pid, group; /* the child, until waitpid; its process group; 0: none */
    int in, out;
    uint8_t *buf; /* bytes [0, have) came; `given` of them were handed out */
    size_t have, size, given;
    /* ZeroMQ */
    struct mf_socket peer;
    zmq_msg_t msg;
};

struct mf_rpc_carrier {
    int (*put)(struct mf_rpc *c, const void *frame, size_t len, double deadline, struct mf_err *err);
    int (*get)(struct mf_rpc *c, double deadline, const void **frame, size_t *len, struct mf_err *err);
    void (*close)(struct mf_rpc *c);
};

extern const struct mf_rpc_carrier mf_rpc_pipes, mf_rpc_zmq;

int mf_rpc_serve_pipes(struct mf_rpc **c);

/* 0: continue waiting; MF_EIO: the time is up; MF_STOPPED: a signal. */
int mf_rpc_wait_on(const struct mf_rpc *c, double deadline, struct mf_err *err);

#endif
