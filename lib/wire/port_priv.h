/* port_priv.h - what port.c and the carriers share. */
#ifndef MF_WIRE_PORT_PRIV_H
#define MF_WIRE_PORT_PRIV_H

#include <stdint.h>

#include "wire/port.h"
#include "wire/token.h"

/* What a carrier must be able to do. A carrier frees what it opened, also after a failed open. */
struct mf_carrier {
    int (*sendv)(struct mf_port *port, const struct iovec *part, int parts, size_t len, struct mf_err *err);
    int (*recv)(struct mf_port *port, struct mf_port *watch, const void **data, size_t *len, struct mf_err *err);
    bool (*reader_gone)(struct mf_port *port);
    int (*close)(struct mf_port *port, struct mf_err *err);
    void (*drop)(struct mf_port *port);
};

struct mf_port {
    const struct mf_carrier *carrier;
    char *name;      /* for sentences: "<stdout>", "run/params" */
    uint64_t offset; /* bytes of the stream before the frame that is coming in */
    int fd;          /* -1 on ZeroMQ */
    struct mf_zmq *zmq;
    uint8_t *buf; /* fd: bytes [start, have) of it came and were not given out */
    size_t start, have, size, given;
};

int mf_port_open_fd(struct mf_port *port, const char *address, enum mf_dir dir, struct mf_err *err);
int mf_port_open_zmq(struct mf_port *port, const char *address, enum mf_dir dir, bool bind, struct mf_err *err);

/* 1: p[0 .. s->at) is a frame; 0: it goes on; negative: MF_EFORMAT, said with the place. */
int mf_port_scan(const struct mf_port *port, struct mf_scan *s, const uint8_t *p, size_t have, struct mf_err *err);

#endif
