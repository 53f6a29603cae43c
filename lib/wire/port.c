#include "wire/port.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "wire/port_priv.h"

#define AT(field) offsetof(struct mf_port_note, field)
static const char *const words[] = {"hello", "bye", "more", "done", "no", "again", NULL};
static const struct mf_note_field fields[] = {
    {"v", AT(v), 0},
    {"taken", AT(taken), 0},
    {"window", AT(window), 0},
    {"why", AT(why), sizeof((struct mf_port_note *)0)->why},
    {NULL, 0, 0},
};
const struct mf_note_form mf_port_form = {"port", words, fields};

int mf_port_open(struct mf_port **port, const char *address, enum mf_dir dir, const struct mf_wire_opts *opts,
                 struct mf_err *err)
{
    bool bind = dir == MF_IN;
    const char *where = address;
    if (*where == '@' || *where == '>')
        bind = *where++ == '@';
    bool zmq = mf_address_is_socket(where);
    if (!zmq && where != address)
        return mf_err_set(err, MF_EUSAGE, "%s: the prefixes '@' and '>' are for ipc:// and tcp:// addresses only",
                          address);
    if (!zmq && strstr(where, "://"))
        return mf_err_set(err, MF_EUSAGE, "%s: unknown kind of address; give -, a path, ipc://PATH or tcp://HOST:PORT",
                          address);
    struct mf_port *p = mf_xcalloc(1, sizeof *p);
    p->fd = -1;
    p->name = mf_xstrdup(strcmp(where, "-") ? where : dir == MF_IN ? "<stdin>" : "<stdout>");
    int rc = !zmq            ? mf_port_open_fd(p, where, dir, err)
             : dir == MF_OUT ? mf_port_open_out(p, where, bind, opts, err)
                             : mf_port_open_in(p, where, bind, opts, err);
    if (rc < 0) {
        free(p->name);
        free(p);
        return rc;
    }
    *port = p;
    return 0;
}

int mf_port_sendv(struct mf_port *port, const struct iovec *part, int parts, struct mf_err *err)
{
    size_t len = 0;
    for (int i = 0; i < parts; i++) {
        if (part[i].iov_len > MF_FRAME_MAX - len)
            return mf_err_set(err, MF_EFORMAT, "%s: a frame of more than 1 GiB cannot be sent; cut it into slices",
                              port->name);
        len += part[i].iov_len;
    }
    return port->carrier->sendv(port, part, parts, len, err);
}

int mf_port_recv(struct mf_port *port, struct mf_port *watch, const void **data, size_t *len, struct mf_err *err)
{
    int rc = port->carrier->recv(port, watch, data, len, err);
    if (rc == 1)
        port->offset += *len;
    return rc;
}

/* A frame that fills most of the buffer is handed out with it; the bytes after it move to a new buffer. */
int mf_port_take(struct mf_port *port, struct mf_port *watch, void **data, size_t *len, struct mf_err *err)
{
    const void *frame;
    int rc = mf_port_recv(port, watch, &frame, len, err);
    if (rc != 1)
        return rc;
    bool whole = port->fd >= 0 && frame == port->buf && *len > port->have / 2;
    size_t size = whole ? port->have - *len : *len;
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        return mf_err_set(err, MF_ENOMEM, "%s: cannot allocate %zu bytes for a frame", port->name, size);
    memcpy(copy, whole ? port->buf + *len : frame, size);
    *data = whole ? port->buf : copy;
    if (whole) {
        port->buf = copy;
        port->have = port->size = size;
        port->start = port->given = 0;
    }
    return 1;
}

int mf_port_scan(const struct mf_port *port, struct mf_scan *s, const uint8_t *p, size_t have, struct mf_err *err)
{
    struct mf_token first;
    unsigned long long at = port->offset;
    if (have && !s->at && mf_token_read(&first, p, have) && first.type != MF_MAP)
        return mf_err_set(err, MF_EFORMAT, "%s: byte %llu is 0x%02x, where a frame (a MessagePack map) should begin",
                          port->name, at, p[0]);
    int rc = mf_scan_more(s, p, have, MF_FRAME_MAX);
    at += s->at;
    if (rc == -1)
        return mf_err_set(err, MF_EFORMAT, "%s: byte %llu is not valid MessagePack", port->name, at);
    if (rc == -2)
        return mf_err_set(err, MF_EFORMAT, "%s: nested deeper than %d at byte %llu", port->name, MF_DEPTH_MAX, at);
    if (rc == -3)
        return mf_err_set(err, MF_EFORMAT, "%s: the frame at byte %llu is longer than 1 GiB", port->name,
                          (unsigned long long)port->offset);
    return rc;
}

void mf_port_alarm(struct mf_port *port, double at)
{
    port->alarm = at;
}

bool mf_port_is_late(const struct mf_port *port)
{
    return port->alarm > 0 && mf_now() >= port->alarm;
}

double mf_port_waited(const struct mf_port *port)
{
    return port->waited;
}

bool mf_port_is_terminal(const struct mf_port *port)
{
    return port->fd >= 0 && isatty(port->fd);
}

bool mf_port_is_file(const struct mf_port *port)
{
    return port->is_file;
}

bool mf_port_is_pipe(const struct mf_port *port)
{
    return port->is_pipe;
}

bool mf_port_has_room(const struct mf_port *port)
{
    struct pollfd p = {.fd = port->fd, .events = POLLOUT};
    return port->is_pipe && poll(&p, 1, 0) == 1 && p.revents == POLLOUT;
}

const char *mf_port_name(const struct mf_port *port)
{
    return port->name;
}

bool mf_port_is_socket(const struct mf_port *port)
{
    return port->zmq_out || port->zmq_in;
}

int mf_port_from(const struct mf_port *port)
{
    return port->from;
}

int mf_port_check(struct mf_port *port, struct mf_err *err)
{
    return port->carrier->check(port, err);
}

static void forget(struct mf_port *port)
{
    free(port->buf);
    free(port->name);
    free(port);
}

int mf_port_close(struct mf_port *port, struct mf_err *err)
{
    int rc = port->carrier->close(port, err);
    forget(port);
    return rc;
}

void mf_port_drop(struct mf_port *port)
{
    if (!port)
        return;
    port->carrier->drop(port);
    forget(port);
}
