#include "ranks/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

#define ENDS UINT64_MAX /* in the place of a size: this rank ends all, and has said why */

static const double GOODBYE = 1; /* s for the others to read that */

struct transfer {
    uint64_t size;
    char *bytes;
    size_t done; /* bytes of the size and of the message itself */
    int number;
};

struct queue { /* of one direction: messages [first, n) are under way */
    struct transfer *message;
    int first, n, room;
};

struct tcp_peer {
    int fd;
    struct queue out, in;
    uint64_t announced; /* the size of the message that comes in */
};

struct tcp {
    int n, me, begun;
    struct tcp_peer *peer; /* by rank */
};

void *mf_tcp_on(const int *fd, int n, int me)
{
    struct tcp *t = mf_xcalloc(1, sizeof *t);
    *t = (struct tcp){.n = n, .me = me, .peer = mf_xcalloc((size_t)n, sizeof *t->peer)};
    for (int k = 0; k < n; k++) {
        t->peer[k].fd = fd[k];
        if (k != me)
            fcntl(fd[k], F_SETFL, fcntl(fd[k], F_GETFL) | O_NONBLOCK);
    }
    return t;
}

static int add(struct tcp *t, struct queue *q, void *bytes, size_t n)
{
    if (q->n == q->room) {
        q->room = q->room ? 2 * q->room : 16;
        q->message = mf_xrealloc(q->message, (size_t)q->room, sizeof *q->message);
    }
    q->message[q->n++] = (struct transfer){.size = n, .bytes = bytes, .number = t->begun++};
    return 0;
}

static int send_bytes(void *self, int to, const void *bytes, size_t n, struct mf_err *err)
{
    struct tcp *t = self;
    (void)err;
    return add(t, &t->peer[to].out, (void *)(uintptr_t)bytes, n);
}

static int receive_bytes(void *self, int from, void *bytes, size_t n, struct mf_err *err)
{
    struct tcp *t = self;
    (void)err;
    return add(t, &t->peer[from].in, bytes, n);
}

/* ---- moving ---- */

/* The part of a message that follows what is done: first its size, then its bytes. */
static char *next(struct transfer *m, uint64_t *size, size_t *n)
{
    const size_t head = sizeof *size;
    *n = m->done < head ? head - m->done : head + m->size - m->done;
    return m->done < head ? (char *)size + m->done : m->bytes + (m->done - head);
}

static bool is_whole(const struct transfer *m)
{
    return m->done == sizeof m->size + m->size;
}

static int lost(const struct tcp *t, const struct tcp_peer *p, struct mf_err *err)
{
    return mf_err_set(err, MF_EIO,
                      "rank %d has ended, or its connection is broken%s%s; the run resumes from its checkpoint",
                      (int)(p - t->peer), errno ? ": " : "", errno ? strerror(errno) : "");
}

/* The size of the message that comes in has arrived. */
static int check(const struct tcp *t, const struct tcp_peer *p, const struct transfer *m, struct mf_err *err)
{
    if (p->announced == ENDS)
        return mf_err_set(err, MF_EIO, "%s", ""); /* it has logged the error */
    if (p->announced != m->size)
        return mf_err_set(err, MF_EIO,
                          "rank %d sends %llu bytes where rank %d awaits %llu: they are of different builds",
                          (int)(p - t->peer), (unsigned long long)p->announced, t->me, (unsigned long long)m->size);
    return 0;
}

/* What can be moved at once; sets ended[] of what is whole. */
static int move(struct tcp *t, struct tcp_peer *p, bool in, bool *ended, struct mf_err *err)
{
    struct queue *q = in ? &p->in : &p->out;
    while (q->first < q->n) {
        struct transfer *m = &q->message[q->first];
        size_t n;
        char *at = next(m, in ? &p->announced : &m->size, &n);
        errno = 0;
        const ssize_t moved = in ? recv(p->fd, at, n, 0) : send(p->fd, at, n, MSG_NOSIGNAL);
        if (moved < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (moved <= 0)
            return lost(t, p, err);
        m->done += (size_t)moved;
        if (in && m->done == sizeof m->size && check(t, p, m, err))
            return err->code;
        if (is_whole(m))
            ended[q->message[q->first++].number] = true;
    }
    return 0;
}

static int poll_all(void *self, bool *ended, struct mf_err *err)
{
    struct tcp *t = self;
    int left = 0, rc = 0;
    for (int k = 0; rc == 0 && k < t->n; k++) {
        struct tcp_peer *p = &t->peer[k];
        if ((rc = move(t, p, true, ended, err)) || (rc = move(t, p, false, ended, err)))
            return rc;
        left += p->in.n - p->in.first + p->out.n - p->out.first;
    }
    for (int k = 0; left == 0 && k < t->n; k++)
        t->peer[k].in.first = t->peer[k].in.n = t->peer[k].out.first = t->peer[k].out.n = 0;
    t->begun = left ? t->begun : 0;
    return left;
}

/* ---- the end ---- */

/* Tells the others, unless it is in the middle of a message. */
static void tell(struct tcp_peer *p)
{
    const struct queue *q = &p->out;
    const uint64_t ends = ENDS;
    if (q->first == q->n || q->message[q->first].done == 0)
        (void)!send(p->fd, &ends, sizeof ends, MSG_NOSIGNAL);
    shutdown(p->fd, SHUT_WR);
}

/* What they have sent is read: else the system would take back what it was to send to them. */
static void listen_on(struct tcp *t)
{
    char some[4096];
    const double until = mf_now() + GOODBYE;
    for (int k = 0; k < t->n; k++) {
        struct pollfd p = {.fd = t->peer[k].fd, .events = POLLIN};
        for (double left; k != t->me && (left = until - mf_now()) > 0;)
            if (poll(&p, 1, 1 + (int)(left * 1000)) > 0 && recv(p.fd, some, sizeof some, 0) <= 0)
                break;
    }
}

static void close_tcp(void *self, int status, double patience)
{
    struct tcp *t = self;
    (void)patience; /* it waits for nobody */
    for (int k = 0; status && k < t->n; k++)
        if (k != t->me)
            tell(&t->peer[k]);
    if (status)
        listen_on(t);
    for (int k = 0; k < t->n; k++) {
        if (k != t->me)
            close(t->peer[k].fd);
        free(t->peer[k].in.message);
        free(t->peer[k].out.message);
    }
    free(t->peer);
    free(t);
}

const struct mf_transport mf_tcp = {NULL, send_bytes, receive_bytes, poll_all, close_tcp};
