/* call_priv.h - what call.c and its two carriers share. */
#ifndef MF_WIRE_CALL_PRIV_H
#define MF_WIRE_CALL_PRIV_H

#include <stdint.h>
#include <sys/types.h>
#include <zmq.h>

#include "wire/call.h"
#include "wire/socket.h"

struct mf_call {
    const struct mf_call_carrier *carrier;
    char name[128];
    /* descriptors */
    pid_t pid, group; /* the child, until it was waited for; its process group; 0: none */
    int in, out;
    uint8_t *buf; /* bytes [0, have) came; `given` of them were handed out */
    size_t have, size, given;
    /* ZeroMQ */
    struct mf_socket peer;
    zmq_msg_t msg;
};

struct mf_call_carrier {
    int (*put)(struct mf_call *c, const void *frame, size_t len, double deadline, struct mf_err *err);
    int (*get)(struct mf_call *c, double deadline, const void **frame, size_t *len, struct mf_err *err);
    void (*close)(struct mf_call *c);
};

extern const struct mf_call_carrier mf_call_pipes, mf_call_zmq;

int mf_call_serve_pipes(struct mf_call **c);

/* 0 while the time is not up and nobody asked for an end; MF_EIO, MF_STOPPED. */
int mf_call_wait_on(const struct mf_call *c, double deadline, struct mf_err *err);

#endif
