#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/stop.h"
#include "wire/port_priv.h"

enum { CHUNK = 256 << 10, PIPE = 1 << 20, WINDOW = 16 };

/* Waits for the descriptor and meanwhile polls the stop flag and the reader of `watch`. */
static int wait_for(struct mf_port *port, short events, struct mf_port *watch, struct mf_err *err)
{
    for (;;) {
        struct pollfd ready[2] = {{.fd = port->fd, .events = events}, {.fd = watch ? watch->fd : -1}};
        int rc = mf_stop_check(err);
        if (rc)
            return rc;
        const double since = mf_now();
        int n = poll(ready, 2, MF_STOP_TICK);
        port->waited += mf_now() - since;
        if (n < 0 && errno != EINTR)
            return mf_err_errno(err, "poll %s", port->name);
        if (ready[1].revents & (POLLERR | POLLHUP))
            return mf_err_set(err, MF_CLOSED, "%s: the reader is gone", watch->name);
        if (watch && watch->fd < 0 && (rc = mf_port_check(watch, err)))
            return rc;
        if (n > 0 && ready[0].revents)
            return 0;
        if (n == 0 && events == POLLIN && mf_port_is_late(port))
            return MF_PORT_LATE;
    }
}

/* The next CHUNK bytes of a frame of which `off` bytes of part[0] are written. */
static int window(const struct iovec *part, int parts, size_t off, struct iovec *w)
{
    size_t total = 0;
    int n = 0;
    for (int i = 0; i < parts && n < WINDOW && total < CHUNK; i++, off = 0) {
        size_t take = part[i].iov_len - off < CHUNK - total ? part[i].iov_len - off : CHUNK - total;
        w[n++] = (struct iovec){(char *)part[i].iov_base + off, take};
        total += take;
    }
    return n;
}

static int fd_sendv(struct mf_port *port, const struct iovec *part, int parts, size_t len, struct mf_err *err)
{
    size_t off = 0;
    while (len) {
        struct iovec w[WINDOW];
        int rc = port->is_file ? 0 : wait_for(port, POLLOUT, NULL, err);
        if (rc)
            return rc;
        ssize_t n = writev(port->fd, w, window(part, parts, off, w));
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0 && errno == EPIPE)
            return mf_err_set(err, MF_CLOSED, "%s: the reader is gone", port->name);
        if (n < 0)
            return mf_err_errno(err, "write %s", port->name);
        len -= (size_t)n;
        off += (size_t)n;
        while (parts && off >= part->iov_len) {
            off -= part->iov_len;
            part++;
            parts--;
        }
    }
    return 0;
}

/* Makes CHUNK free bytes at the end of the buffer. It doubles, so it stays below twice the received bytes. */
static int make_room(struct mf_port *port, struct mf_err *err)
{
    if (port->start == port->have)
        port->start = port->have = 0;
    if (port->size - port->have >= CHUNK)
        return 0;
    if (port->start) {
        memmove(port->buf, port->buf + port->start, port->have - port->start);
        port->have -= port->start;
        port->start = 0;
    }
    if (port->size - port->have >= CHUNK)
        return 0;
    size_t size = 2 * port->size < 2 * CHUNK ? 2 * CHUNK : 2 * port->size;
    uint8_t *more = realloc(port->buf, size);
    if (!more)
        return mf_err_set(err, MF_ENOMEM, "%s: cannot allocate %zu bytes for a frame", port->name, size);
    port->buf = more;
    port->size = size;
    return 0;
}

static int fd_recv(struct mf_port *port, struct mf_port *watch, const void **data, size_t *len, struct mf_err *err)
{
    struct mf_scan scan;
    int rc = port->buf ? 0 : make_room(port, err);
    if (rc)
        return rc;
    mf_scan_start(&scan);
    port->start += port->given;
    port->given = 0;
    while ((rc = mf_port_scan(port, &scan, port->buf + port->start, port->have - port->start, err)) == 0) {
        if ((rc = make_room(port, err)) || (rc = wait_for(port, POLLIN, watch, err)))
            return rc;
        size_t got = port->have - port->start, known = scan.at > got + CHUNK ? scan.at - got : CHUNK;
        size_t room = port->size - port->have;
        ssize_t n = read(port->fd, port->buf + port->have, known < room ? known : room);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return mf_err_errno(err, "read %s", port->name);
        if (n == 0 && got)
            return mf_err_set(err, MF_EFORMAT, "%s: ends inside a frame, at byte %llu (the frame began at byte %llu)",
                              port->name, (unsigned long long)(port->offset + got), (unsigned long long)port->offset);
        if (n == 0)
            return 0;
        port->have += n > 0 ? (size_t)n : 0;
    }
    if (rc < 0)
        return rc;
    *data = port->buf + port->start;
    *len = port->given = scan.at;
    return 1;
}

static int fd_check(struct mf_port *port, struct mf_err *err)
{
    struct pollfd out = {.fd = port->fd};
    bool gone = poll(&out, 1, 0) > 0 && out.revents & (POLLERR | POLLHUP);
    return gone ? mf_err_set(err, MF_CLOSED, "%s: the reader is gone", port->name) : 0;
}

static int fd_close(struct mf_port *port, struct mf_err *err)
{
    if (close(port->fd) < 0 && errno != EINTR)
        return mf_err_errno(err, "close %s", port->name);
    return 0;
}

static void fd_drop(struct mf_port *port)
{
    close(port->fd);
}

static const struct mf_carrier fd_carrier = {fd_sendv, fd_recv, fd_check, fd_close, fd_drop};

/* A write to a full pipe must not block after the stop flag was set. O_NONBLOCK belongs to the open file description,
 * which other processes may share, so a pipe on stdout gets its own. */
static void unblock_stdout(void)
{
    int own = open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (own >= 0) {
        dup2(own, STDOUT_FILENO);
        close(own);
    }
}

/* A FIFO without a reader cannot be opened for writing yet: retried, so that a signal ends the wait. */
static int open_path(const char *path, enum mf_dir dir, struct mf_err *err)
{
    int flags = O_NONBLOCK | O_CLOEXEC | (dir == MF_IN ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC);
    for (;;) {
        int rc, fd = open(path, flags, 0666);
        if (fd >= 0)
            return fd;
        if (errno != ENXIO && errno != EINTR)
            return mf_err_errno(err, "open %s", path);
        if ((rc = mf_stop_check(err)))
            return rc;
        poll(NULL, 0, MF_STOP_TICK);
    }
}

int mf_port_open_fd(struct mf_port *port, const char *address, enum mf_dir dir, struct mf_err *err)
{
    struct stat st;
    bool standard = !strcmp(address, "-");
    int fd = !standard ? open_path(address, dir, err) : dir == MF_IN ? STDIN_FILENO : STDOUT_FILENO;
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0) {
        int rc = mf_err_errno(err, "open %s", port->name);
        if (!standard)
            close(fd);
        return rc;
    }
    if (S_ISFIFO(st.st_mode)) {
        fcntl(fd, F_SETPIPE_SZ, PIPE); /* may fail: slower, but correct */
        if (standard && dir == MF_OUT)
            unblock_stdout();
    }
    port->carrier = &fd_carrier;
    port->fd = fd;
    port->is_pipe = S_ISFIFO(st.st_mode);
    port->is_file = S_ISREG(st.st_mode);
    return 0;
}
