/* port_priv.h - shared by port.c and the carriers. */
#ifndef MF_WIRE_PORT_PRIV_H
#define MF_WIRE_PORT_PRIV_H

#include <stdint.h>

#include "wire/note.h"
#include "wire/port.h"
#include "wire/token.h"

/* The operations of a carrier. It frees its resources, also after a failed open. */
struct mf_carrier {
    int (*sendv)(struct mf_port *port, const struct iovec *part, int parts, size_t len, struct mf_err *err);
    int (*recv)(struct mf_port *port, struct mf_port *watch, const void **data, size_t *len, struct mf_err *err);
    int (*check)(struct mf_port *port, struct mf_err *err);
    int (*close)(struct mf_port *port, struct mf_err *err);
    void (*drop)(struct mf_port *port);
};

struct mf_port {
    const struct mf_carrier *carrier;
    char *name;      /* for messages: "<stdout>", "run/params" */
    uint64_t offset; /* bytes of the stream before the frame that is coming in */
    int fd;          /* -1 on ZeroMQ */
    bool is_pipe;
    bool is_file; /* writes to fd do not block, so a signal never has to interrupt one and truncate a frame */
    struct mf_port_out *zmq_out; /* one of the two, or neither */
    struct mf_port_in *zmq_in;
    double waited;
    double alarm; /* 0: none */
    int from;     /* whose the last frame was */
    uint8_t *buf; /* fd: bytes [start, have) were received and not yet returned */
    size_t start, have, size, given;
};

int mf_port_open_fd(struct mf_port *port, const char *address, enum mf_dir dir, struct mf_err *err);
int mf_port_open_out(struct mf_port *port, const char *address, bool bind, const struct mf_wire_opts *o,
                     struct mf_err *err);
int mf_port_open_in(struct mf_port *port, const char *address, bool bind, const struct mf_wire_opts *o,
                    struct mf_err *err);

bool mf_port_is_late(const struct mf_port *port);

/* The note of port.h. */
enum mf_port_word { MF_PORT_HELLO, MF_PORT_BYE, MF_PORT_MORE, MF_PORT_DONE, MF_PORT_NO, MF_PORT_AGAIN };
enum { MF_PORT_VERSION = 1 };
struct mf_port_note {
    int say;
    int64_t v, taken, window;
    char why[480];
};
extern const struct mf_note_form mf_port_form;

/* 1: p[0 .. s->at) is a frame; 0: incomplete; negative: MF_EFORMAT, with the position. */
int mf_port_scan(const struct mf_port *port, struct mf_scan *s, const uint8_t *p, size_t have, struct mf_err *err);

#endif
