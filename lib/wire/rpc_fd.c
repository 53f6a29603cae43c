#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"
#include "base/stop.h"
#include "wire/rpc_priv.h"
#include "wire/port.h"
#include "wire/token.h"

enum { CHUNK = 64 << 10, PIPE = 1 << 20, GRACE_MS = 500 };

/* ---- how a child ended ---- */

static bool reap(struct mf_rpc *c, int *status, int ms)
{
    for (;; ms -= 5) {
        if (waitpid(c->pid, status, WNOHANG) == c->pid) {
            c->pid = 0;
            return true;
        }
        if (ms <= 0)
            return false;
        poll(NULL, 0, 5);
    }
}

static int gone(struct mf_rpc *c, struct mf_err *err)
{
    int status;
    if (!c->pid || !reap(c, &status, GRACE_MS))
        return mf_err_set(err, MF_CLOSED, "%s closed the connection", c->name);
    return mf_err_set(err, MF_CLOSED, "%s %s", c->name, mf_status_text((char[MF_STATUS_TEXT]){0}, status));
}

/* ---- frames ---- */

static int wait_for(struct mf_rpc *c, int fd, short events, double deadline, struct mf_err *err)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = events};
        int n = poll(&p, 1, MF_STOP_TICK), rc;
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return mf_err_errno(err, "poll %s", c->name);
        if ((rc = mf_rpc_wait_on(c, deadline, err)))
            return rc;
    }
}

static int put(struct mf_rpc *c, const void *frame, size_t len, double deadline, struct mf_err *err)
{
    for (const char *at = frame; len;) {
        ssize_t n = write(c->out, at, len);
        if (n < 0 && errno == EPIPE)
            return gone(c, err);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return mf_err_errno(err, "write to %s", c->name);
        int rc = n < 0 ? wait_for(c, c->out, POLLOUT, deadline, err) : 0;
        if (rc)
            return rc;
        at += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static int not_a_frame(const struct mf_rpc *c, struct mf_err *err)
{
    char text[40];
    size_t n = 0;
    while (n < c->have && n < sizeof text - 1 && c->buf[n] >= ' ' && c->buf[n] < 0x7f) {
        text[n] = (char)c->buf[n];
        n++;
    }
    text[n] = '\0';
    return mf_err_set(err, MF_EFORMAT,
                      "%s wrote 0x%02x%s%s%s to its stdout where a frame (a MessagePack map) should begin: it must "
                      "print to stderr instead",
                      c->name, c->buf[0], n ? " ('" : "", text, n ? "..')" : "");
}

/* 1: a complete frame is at buf[0 .. *len). */
static int scan(const struct mf_rpc *c, struct mf_scan *s, struct mf_err *err)
{
    struct mf_token first;
    if (c->have && !s->at && mf_token_read(&first, c->buf, c->have) && first.type != MF_MAP)
        return not_a_frame(c, err);
    int rc = c->have ? mf_scan_more(s, c->buf, c->have, MF_FRAME_MAX) : 0;
    return rc >= 0
               ? rc
               : mf_err_set(err, MF_EFORMAT, "%s sent bytes that are not a MessagePack map of at most 1 GiB", c->name);
}

static int get(struct mf_rpc *c, double deadline, const void **frame, size_t *len, struct mf_err *err)
{
    struct mf_scan s;
    int rc;
    mf_scan_start(&s);
    c->have -= c->given;
    memmove(c->buf, c->buf + c->given, c->have);
    c->given = 0;
    while ((rc = scan(c, &s, err)) == 0) {
        if (c->size - c->have < CHUNK) {
            uint8_t *more = realloc(c->buf, 2 * c->size);
            if (!more)
                return mf_err_set(err, MF_ENOMEM, "cannot allocate %zu bytes for a frame of %s", 2 * c->size, c->name);
            c->buf = more;
            c->size *= 2;
        }
        if ((rc = wait_for(c, c->in, POLLIN, deadline, err)))
            return rc;
        ssize_t n = read(c->in, c->buf + c->have, c->size - c->have);
        if (n == 0)
            return gone(c, err);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return mf_err_errno(err, "read from %s", c->name);
        c->have += n > 0 ? (size_t)n : 0;
    }
    if (rc < 0)
        return rc;
    *frame = c->buf;
    *len = c->given = s.at;
    return 0;
}

static void hang_up(struct mf_rpc *c)
{
    int status;
    pid_t group = c->group;
    close(c->out);
    close(c->in);
    if (c->pid)
        reap(c, &status, GRACE_MS);
    if (group)
        kill(-group, SIGKILL); /* also its remaining children */
    if (c->pid)
        waitpid(c->pid, &status, 0);
}

const struct mf_rpc_carrier mf_rpc_pipes = {put, get, hang_up};

/* ---- the two ends ---- */

static struct mf_rpc *new_call(int in, int out, pid_t pid)
{
    struct mf_rpc *c = mf_xcalloc(1, sizeof *c);
    c->carrier = &mf_rpc_pipes;
    c->in = in;
    c->out = out;
    c->pid = c->group = pid;
    c->size = 2 * CHUNK;
    c->buf = mf_xcalloc(1, c->size);
    fcntl(in, F_SETPIPE_SZ, PIPE); /* may fail, or not be a pipe: slower, but correct */
    fcntl(out, F_SETPIPE_SZ, PIPE);
    return c;
}

int mf_rpc_spawn(struct mf_rpc **out, const char *command, struct mf_err *err)
{
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC))
        return mf_err_errno(err, "cannot make a pipe to '%s'", command);
    if (pipe2(from, O_CLOEXEC)) {
        close(to[0]), close(to[1]);
        return mf_err_errno(err, "cannot make a pipe to '%s'", command);
    }
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGPIPE, SIG_DFL);
        signal(SIGXFSZ, SIG_DFL);
        if (dup2(to[0], STDIN_FILENO) >= 0 && dup2(from[1], STDOUT_FILENO) >= 0)
            execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    close(to[0]), close(from[1]);
    if (pid < 0) {
        close(to[1]), close(from[0]);
        return mf_err_errno(err, "cannot start '%s'", command);
    }
    setpgid(pid, pid); /* in parent and child, whichever runs first */
    fcntl(to[1], F_SETFL, O_NONBLOCK);
    fcntl(from[0], F_SETFL, O_NONBLOCK);
    *out = new_call(from[0], to[1], pid);
    snprintf((*out)->name, sizeof(*out)->name, "process %d", (int)pid);
    return 0;
}

int mf_rpc_serve_pipes(struct mf_rpc **out)
{
    *out = new_call(STDIN_FILENO, STDOUT_FILENO, 0);
    snprintf((*out)->name, sizeof(*out)->name, "<stdin>");
    return 0;
}
